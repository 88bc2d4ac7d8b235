# Writes each ```cpp block of a page to <folder>/<prefix>_<nn>.cpp and prints its name and the words after ```cpp. `fence`: another
# word than cpp.
BEGIN { if (!fence) fence = "cpp" }
$0 ~ "^```" fence "([ \t]|$)" {
  name = sprintf("%s_%02d", prefix, ++count)
  file = folder "/" name ".cpp"
  printf "#line %d \"%s\"\n", NR + 1, page > file
  sub("^```" fence "[ \t]*", "")
  print name, $0
  inside = 1
  next
}
/^```/ && inside { close(file); inside = 0; next }
inside { print > file }
