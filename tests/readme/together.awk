# awk -f together.awk block...: one program of the blocks that snippets.awk wrote, each of which is a program. What they include comes
# first, each stands in a namespace of its own, and its main is called where the program's argument is the block's name.
FNR == 1 {
  name = FILENAME
  sub(/.*\//, "", name)
  sub(/[.]cpp$/, "", name)
  space = name
  gsub(/[.]/, "_", space)
  body = body "}\nnamespace " space " {\n"
}
/^#include/ { includes[$0]; body = body "\n"; next }
/^int main\(/ {
  calls = calls "  if (block == \"" name "\") return " space "::block_main(" (/argc/ ? "argc, argv" : "") ");\n"
  sub(/main/, "block_main")
  in_main = 1
}
/^}/ && in_main { body = body "return 0;"; in_main = 0 }
{ body = body $0 "\n" }
END {
  includes["#include <string_view>"]
  for (line in includes) print line
  sub(/^}\n/, "", body)
  print body "}\n\nint main(int argc, char** argv) {\n  std::string_view const block = argc == 2 ? argv[1] : \"\";\n  argc = 1;"
  print calls "  return 2;\n}"
}
