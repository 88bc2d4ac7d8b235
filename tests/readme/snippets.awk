# Writes each ```cpp block of a README to <folder>/snippet_<nn>.cpp and prints its name and the words after ```cpp.
/^```cpp([ \t]|$)/ {
  name = sprintf("snippet_%02d", ++count)
  file = folder "/" name ".cpp"
  printf "#line %d \"%s\"\n", NR + 1, readme > file
  sub(/^```cpp[ \t]*/, "")
  print name, $0
  inside = 1
  next
}
/^```/ && inside { close(file); inside = 0; next }
inside { print > file }
