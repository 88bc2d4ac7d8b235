# Shows Doxygen a header's `//` comments as documentation: the first block is the file's, a block above a declaration or a comment
# behind one is that declaration's. Members that are defaulted or deleted are left out: there is nothing to say of them. So are what
# Doxygen misreads: a base that is the class itself with other arguments, and what a member function requires of them.
function escaped(text,    parts, n, i, all) {  # what is no code and would mean something to Doxygen
  n = split(text, parts, "`")
  for (i = 1; i <= n; ++i) {
    if (i % 2 == 1) {
      gsub(/\\/, "\\\\", parts[i])
      gsub(/[@<>#%]/, "\\\\&", parts[i])
    }
    all = all (i > 1 ? "`" : "") parts[i]
  }
  return all
}
function without_own_base(line,    words, n) {
  n = split(line, words, /[ <]+/)
  if (words[3] == ":" && (words[2] == words[4] || words[4] == "public" && words[2] == words[5])) sub(/ : .*\{$/, " {", line)
  return line
}
{ sub(/::inline v[0-9]+_[0-9]+/, "") }  # of the version, which users do not write
FNR == 1 { hidden = 0 }
/^namespace [a-z_]+::inline v/ { sub(/::inline v[0-9_]+/, "") }  # names are those that trainers write
FNR == 1 && /^\/\// { print "/// @file" }
# Classes that stand in after a mistake are hidden. The ones that work have the names that trainers write: Session<C> is
# Session, and BasicVariable, to which the alias Variable leads, is Variable.
/^\/\/ Stands in / { hidden = 1 }
/^\/\/ .*`Variable` normalises to/ { hidden = 1 }
hidden && /^};|^class [A-Za-z]*;/ { hidden = 0; print ""; next }
hidden { print ""; next }
/^using Variable = / { print "class Variable;"; next }
{ gsub(/BasicVariable</, "Variable<"); sub(/^class Session<C> \{/, "class Session {") }
/=[ ]*(default|delete);/ && !/^[ ]*\/\// { print ""; next }
/^[ ]*\/\/( |$)/ {
  indent = $0; sub(/\/\/.*/, "", indent)
  text = $0; sub(/^[ ]*\/\//, "", text)
  print indent "///" escaped(text)
  next
}
/^(class|struct) [A-Za-z]+ : .*\{$/ { $0 = without_own_base($0) }
/ const requires [^{]*\{$/ { sub(/ requires [^{]*\{$/, " {") }
/  \/\/ / && !/^[ ]*[}#]/ && !/[{(]  \/\/ / && !/^[ ]*(if|for|while|else|return|public:|private:|protected:)/ {
  at = index($0, "  // ")
  code = substr($0, 1, at - 1)
  text = substr($0, at + 4)
  print code "  ///<" escaped(text)
  next
}
{ print }
