// Files of NumPy: those that NumPy wrote are read, those that are written have its bytes, and hostile ones are refused by a
// sentence, in little memory. PARALLAX_TEST_FILES is the folder of NumPy's files: see make.py there.
#include "parallax/interop/npy.hpp"

#include <sys/stat.h>

#include <complex>
#include <cstring>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "scratch.hpp"

namespace npy = parallax::npy;
using npy::Dtype;
using parallax_test::little_endian;
using parallax_test::read_all;
using parallax_test::refusal;
using parallax_test::says;
using parallax_test::Scratch;

template <>
struct parallax::npy::DtypeOf<std::complex<float>> {
  static constexpr Dtype value = Dtype::c8;
};
template <>
struct parallax::npy::DtypeOf<std::complex<double>> {
  static constexpr Dtype value = Dtype::c16;
};

namespace {

std::string const files = std::string{PARALLAX_TEST_FILES} + "/";

std::span<std::byte const> as_bytes(std::string_view text) { return std::as_bytes(std::span{text}); }

using Shape = std::vector<std::uint64_t>;

// Whether a file of NumPy's has this dtype, shape and elements, and a writer of ours its bytes.
template <class T>
void check_file(std::string const& name, Dtype dtype, Shape const& shape, std::vector<T> const& elements) {
  INFO(name);
  npy::Reader const reader{files + name};
  CHECK(reader.dtype() == dtype);
  CHECK(reader.shape() == shape);
  std::span<T const> const found = reader.values<T>();
  CHECK(std::vector<T>(found.begin(), found.end()) == elements);

  Scratch const scratch;
  npy::Writer writer{scratch.path("written"), dtype, shape};
  auto const bytes = std::as_bytes(std::span{elements});
  writer.write(bytes.size() / 2, bytes.subspan(bytes.size() / 2));
  writer.write(0, bytes.first(bytes.size() / 2));
  writer.finish();
  if (name.rfind("version", 0) != 0) CHECK(read_all(scratch.path("written")) == read_all(files + name));
  CHECK(npy::Reader{scratch.path("written")}.shape() == shape);
}

}  // namespace

TEST_CASE("every dtype is read as NumPy wrote it, and written with NumPy's bytes", "[interop][npy]") {
  Shape const shape{2, 3};
  check_file<std::uint8_t>("b1.npy", Dtype::b1, shape, {0, 1, 1, 1, 1, 1});
  check_file<std::int8_t>("i1.npy", Dtype::i1, shape, {0, 1, 2, 3, 4, 5});
  check_file<std::int16_t>("i2.npy", Dtype::i2, shape, {0, 1, 2, 3, 4, 5});
  check_file<std::int32_t>("i4.npy", Dtype::i4, shape, {0, 1, 2, 3, 4, 5});
  check_file<std::int64_t>("i8.npy", Dtype::i8, shape, {0, 1, 2, 3, 4, 5});
  check_file<std::uint8_t>("u1.npy", Dtype::u1, shape, {0, 1, 2, 3, 4, 5});
  check_file<std::uint16_t>("u2.npy", Dtype::u2, shape, {0, 1, 2, 3, 4, 5});
  check_file<std::uint32_t>("u4.npy", Dtype::u4, shape, {0, 1, 2, 3, 4, 5});
  check_file<std::uint64_t>("u8.npy", Dtype::u8, shape, {0, 1, 2, 3, 4, 5});
  check_file<std::uint16_t>("f2.npy", Dtype::f2, shape, {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500});
  check_file<float>("f4.npy", Dtype::f4, shape, {0, 1, 2, 3, 4, 5});
  check_file<double>("f8.npy", Dtype::f8, shape, {0, 1, 2, 3, 4, 5});
  check_file<std::complex<float>>("c8.npy", Dtype::c8, shape, {0, 1, 2, 3, 4, 5});
  check_file<std::complex<double>>("c16.npy", Dtype::c16, shape, {0, 1, 2, 3, 4, 5});
}

TEST_CASE("scalars, empty arrays and every version of the format are read", "[interop][npy]") {
  check_file<float>("scalar.npy", Dtype::f4, {}, {2.5f});
  check_file<std::int32_t>("one.npy", Dtype::i4, {3}, {1, 2, 3});
  check_file<double>("none.npy", Dtype::f8, {0, 5}, {});
  check_file<std::uint16_t>("version_2.npy", Dtype::u2, {1, 2}, {1, 2});
  check_file<std::uint16_t>("version_3.npy", Dtype::u2, {2, 1}, {3, 4});
  check_file<double>("columns_of_one.npy", Dtype::f8, {2}, {5, 6});
}

TEST_CASE("what NumPy writes and is not read here is named", "[interop][npy]") {
  auto const said = [](char const* name) { return refusal([&] { npy::Reader{files + name}; }); };
  CHECK(said("columns.npy") ==
        files + "columns.npy: 'fortran_order': True, columns first, is not read where there are 2 dimensions");
  CHECK(said("big.npy") == files + "big.npy: 'descr' '>i4': big-endian is not read");
  CHECK(said("structure.npy") == says("'descr' is a list: arrays of structures are not read"));
  CHECK(said("object.npy") == says("'descr' '|O': Python objects are not read: they would run code"));
  CHECK(said("text.npy") == says("'descr' '<U2': this dtype is not read"));
  CHECK(said("time.npy") == says("'descr' '<M8[D]': this dtype is not read"));
  CHECK(said("extended.npy") == says("'descr' '<f16': this dtype is not read"));
}

namespace {

// A file with this dictionary and these data, of version 1.0.
std::string file(std::string_view dictionary, std::string_view data = "",
                 std::string_view version = std::string_view{"\x01\0", 2}) {
  std::string bytes = std::string{"\x93NUMPY"}.append(version);
  auto const length = static_cast<std::uint32_t>(dictionary.size());
  bytes.append(little_endian(length), 0, version[0] == 1 ? 2 : 4);
  return bytes.append(dictionary).append(data);
}

// A dictionary of one byte, but for what is given.
std::string one(std::string_view descr = "'|u1'", std::string_view order = "False", std::string_view shape = "(1,)") {
  return std::string{"{'descr': "}
             .append(descr)
             .append(", 'fortran_order': ")
             .append(order)
             .append(", 'shape': ")
             .append(shape) +
         ", }\n";
}

struct Hostile {
  char const* name;
  std::string bytes;
  char const* sentence;
};

std::vector<Hostile> hostile() {
  std::string many = "(";
  for (int i = 0; i < 65; ++i) many += "1,";
  std::string_view const second{"\x02\0", 2};
  auto const claimed = [](std::uint32_t length) {
    return std::string{"\x93NUMPY\x02\0", 8} + little_endian(length) + one() + "1";
  };
  auto const fields = [](std::string_view text) { return "{" + std::string{text} + "}\n"; };
  return {
      {"empty", "", "the file does not begin with \\x93NUMPY"},
      {"another format", "PK\x03\x04" + std::string(100, ' '), "the file does not begin with \\x93NUMPY"},
      {"nothing behind the magic", "\x93NUMPY", "the file ends in its header"},
      {"half of a length", std::string{"\x93NUMPY\x01\0\1", 9}, "the file ends in its header"},
      {"half of a longer length", std::string{"\x93NUMPY\x02\0\1\0\0", 11}, "the file ends in its header"},
      {"version 0.0", file(one(), "1", std::string_view{"\0\0", 2}), "version 0.0 of the format is not read"},
      {"version 1.1", file(one(), "1", "\x01\x01"), "version 1.1 of the format is not read"},
      {"version 4.0", file(one(), "1", std::string_view{"\x04\0", 2}), "version 4.0 of the format is not read"},
      {"a length of 4 GiB", claimed(0xffffffff), "the header's length is 4294967295 bytes, more than the 65535 that are read"},
      {"a length above the limit", claimed(65'536), "the header's length is 65536 bytes, more than"},
      {"a length above the file's", claimed(60'000), "the header's length is 60000 bytes, in a file of"},
      {"no header", file(""), "expected {"},
      {"a list", file("[]"), "expected {"},
      {"no fields", file("{}"), "no field 'descr'"},
      {"no end", file("{"), "expected a string, at byte 11, where the header ends"},
      {"no descr", file(fields("'fortran_order': False, 'shape': (1,)"), "1"), "no field 'descr'"},
      {"no order", file(fields("'descr': '|u1', 'shape': (1,)"), "1"), "no field 'fortran_order'"},
      {"no shape", file(fields("'descr': '|u1', 'fortran_order': False"), "1"), "no field 'shape'"},
      {"two descr", file(fields("'descr': '|u1', 'descr': '|u1'"), "1"), "two fields 'descr'"},
      {"two shapes", file(fields("'shape': (1,), \"shape\": (2,)"), "1"), "two fields 'shape'"},
      {"an unknown field", file(fields("'descr': '|u1', 'strides': (1,)"), "1"), "unknown field 'strides'"},
      {"an unknown field of a line's bytes", file(fields("'" + std::string(60'000, 'x') + "': 1")), "xxxx…'"},
      {"a field without quotes", file(fields("descr: '|u1'")), "expected a string"},
      {"a field without an end", file("{'descr"), "a string has no end"},
      {"an escape", file(one("'\\x7cu1'"), "1"), "a string holds an escape or a control character"},
      {"no colon", file("{'descr' '|u1'}"), "expected :"},
      {"no comma", file("{'descr': '|u1' 'shape': (1,)}"), "expected }"},
      {"two commas", file("{'descr': '|u1',, }"), "expected a string"},
      {"something behind it", file(one() + "import os", "1"), "something stands behind the dictionary"},
      {"a NUL behind it", file(one() + std::string(1, '\0'), "1"), "something stands behind the dictionary"},
      {"a call", file(one("__import__('os')"), "1"), "expected a string"},
      {"no dtype", file(one("''"), "1"), "'descr' '': no byte order"},
      {"a dtype of None", file(one("None"), "1"), "expected a string"},
      {"a dtype without its order", file(one("'u1'"), "1"), "'descr' 'u1': no byte order, which is '<', or '|'"},
      {"the machine's order", file(one("'=u4'"), "1234"), "'=' is the byte order of a machine that the file does not name"},
      {"big-endian", file(one("'>f8'"), "12345678"), "'descr' '>f8': big-endian is not read"},
      {"four bytes without an order", file(one("'|u4'"), "1234"), "'descr' '|u4': '|' is for single bytes"},
      {"an unknown dtype", file(one("'<q8'"), "12345678"), "'descr' '<q8': this dtype is not read"},
      {"an unknown size", file(one("'<f3'"), "123"), "'descr' '<f3': this dtype is not read"},
      {"a longer dtype", file(one("'<f4 '"), "1234"), "'descr' '<f4 ': this dtype is not read"},
      {"a dtype with bytes of no character", file(one("'<\xff\x80'"), "1"), "'descr' '<\\xff\\x80': this dtype is not read"},
      {"an object", file(one("'|O'"), "12345678"), "'descr' '|O': Python objects are not read: they would run code"},
      {"an object of 8 bytes", file(one("'<O8'"), "12345678"), "Python objects are not read"},
      {"a structure", file(one("[('a', '<i4')]"), "1234"), "'descr' is a list: arrays of structures are not read"},
      {"an array of arrays", file(one("('<i4', (2,))"), "12345678"), "'descr' is a tuple: arrays of arrays are not read"},
      {"an order of 0", file(one("'|u1'", "0"), "1"), "'fortran_order' is neither True nor False"},
      {"an order in small letters", file(one("'|u1'", "false"), "1"), "'fortran_order' is neither True nor False"},
      {"an order of two words", file(one("'|u1'", "TrueFalse"), "1"), "expected }"},
      {"columns first", file(one("'|u1'", "True", "(1, 1)"), "1"), "columns first, is not read where there are 2 dimensions"},
      {"a shape of a number", file(one("'|u1'", "False", "1"), "1"), "expected ("},
      {"a shape of a list", file(one("'|u1'", "False", "[1]"), "1"), "expected ("},
      {"a shape that is no tuple", file(one("'|u1'", "False", "(1)"), "1"), "has no comma, and so is no tuple"},
      {"a shape of a comma", file(one("'|u1'", "False", "(,)"), "1"), "'shape' is no tuple of integers"},
      {"a shape without an end", file("{'shape': (1,"), "'shape' is no tuple of integers"},
      {"shapes in one another", file(one("'|u1'", "False", std::string(60'000, '('))), "'shape' is no tuple of integers"},
      {"a negative length", file(one("'|u1'", "False", "(-1,)"), "1"), "'shape' is negative"},
      {"a fraction", file(one("'|u1'", "False", "(1.0,)"), "1"), "expected )"},
      {"an exponent", file(one("'|u1'", "False", "(1e0,)"), "1"), "expected )"},
      {"two longs of Python 2 in one", file(one("'|u1'", "False", "(1LL,)"), "1"), "expected )"},
      {"a long of Python 2 without digits", file(one("'|u1'", "False", "(L,)"), "1"), "'shape' is no tuple of integers"},
      {"a length with an underscore", file(one("'|u1'", "False", "(1_0,)"), "1"), "expected )"},
      {"a length that begins with 0", file(one("'|u1'", "False", "(01,)"), "1"), "'shape' begins with 0"},
      {"a length of True", file(one("'|u1'", "False", "(True,)"), "1"), "'shape' is no tuple of integers"},
      {"a length of 2^64", file(one("'|u1'", "False", "(18446744073709551616,)"), "1"), "'shape' is above 2^64 - 1"},
      {"a product of 2^64", file(one("'|u1'", "False", "(4294967296, 4294967296)"), "1"),
       "'shape' has more than 2^64 - 1 bytes"},
      {"2^61 doubles", file(one("'<f8'", "False", "(2305843009213693952,)")), "'shape' has more than 2^64 - 1 bytes"},
      {"2^40 elements", file(one("'|u1'", "False", "(1099511627776,)"), "1"),
       "'descr' and 'shape' have 1099511627776 bytes, the file has 1 behind its header"},
      {"65 dimensions", file(one("'|u1'", "False", many + ")"), "1"), "'shape' has more than 64 dimensions"},
      {"a byte too few", file(one("'<u2'"), "1"), "'descr' and 'shape' have 2 bytes, the file has 1 behind its header"},
      {"a byte too many", file(one(), "12"), "'descr' and 'shape' have 1 bytes, the file has 2 behind its header"},
      {"two arrays", file(one(), "1") + file(one(), "1"), "'descr' and 'shape' have 1 bytes, the file has"},
      {"a dictionary of version 2 that ends early", file("{'descr': '|u1'", "1", second), "expected }"},
  };
}

}  // namespace

TEST_CASE("a hostile file of NumPy's is refused by a sentence", "[interop][npy][hostile]") {
  Scratch const scratch;
  std::vector<Hostile> const all = hostile();
  CHECK(all.size() >= 60);
  for (Hostile const& made : all) {
    INFO(made.name);
    std::string const path = scratch.write("hostile", made.bytes);
    std::string const said = refusal([&] { npy::Reader{path}; });
    CHECK(said == says(made.sentence));
    CHECK(said.rfind(path + ": ", 0) == 0);
    CHECK(said.size() < 600);
    CHECK(refusal([&] { npy::parse_header(as_bytes(made.bytes), made.bytes.size(), path); }) == said);
  }
  double const growth = parallax_test::resident_growth([&] {
    for (Hostile const& made : all) refusal([&] { npy::Reader{scratch.write("hostile", made.bytes)}; });
    scratch.write("hostile", file(one("'|u1'", "False", "(1099511627776,)")));
    std::filesystem::resize_file(scratch.path("hostile"), std::uint64_t{1} << 40);
    refusal([&] { npy::Reader{scratch.path("hostile")}; });
  });
  INFO(growth << " MiB");
  CHECK(growth >= 0);
  if (parallax_test::resident_is_ours) CHECK(growth <= 64);
}

TEST_CASE("no regular file of NumPy's: refused, and nobody waits", "[interop][npy][hostile]") {
  Scratch const scratch;
  auto const said = [&](std::string const& path) { return refusal([&] { npy::Reader{path}; }); };
  CHECK(said(scratch.path("")) == says("this is a directory, and no regular file"));
  REQUIRE(::mkfifo(scratch.path("fifo").c_str(), 0600) == 0);
  CHECK(said(scratch.path("fifo")) == says("this is a FIFO, and no regular file"));
  std::filesystem::create_symlink("loop", scratch.path("loop"));
  CHECK(said(scratch.path("loop")) == says("open: Too many levels of symbolic links"));
}

TEST_CASE("a dictionary may be written in any way that Python reads", "[interop][npy]") {
  Scratch const scratch;
  for (std::string const& text : {one(), std::string{"{\"shape\":(1,),'fortran_order':True,\n 'descr' : \"<u1\"}"},
                                  std::string{" {'fortran_order': False ,'descr':'|u1', 'shape': ( 1 , ) } \t\r\n"},
                                  one("'|u1'", "False", "(1, 1)"), one("'|u1'", "False", "(1,1,)"), one("'|b1'", "True", "()"),
                                  one("'|u1'", "False", "(1L, 1L)"), one("'|u1'", "False", "(1L,)")}) {
    INFO(text);
    npy::Reader const reader{scratch.write("file", file(text, "1"))};
    CHECK(reader.values<std::uint8_t>()[0] == '1');
    CHECK(npy::Reader{scratch.write("file", file(text, "1", std::string_view{"\x03\0", 2}))}.bytes().size() == 1);
  }
}

TEST_CASE("a file of NumPy's that ends early is refused, and with any bit flipped refused or a file",
          "[interop][npy][hostile]") {
  Scratch const scratch;
  for (char const* const name : {"f4.npy", "scalar.npy", "version_2.npy", "u1.npy"}) {
    std::string const bytes = read_all(files + name);
    std::string const path = scratch.write("file", bytes);
    std::size_t const end = npy::parse_header(as_bytes(bytes), bytes.size(), name).begin;
    std::size_t refused = 0;
    for (std::size_t bit = 0; bit < 8 * end; ++bit) {
      scratch.overwrite("file", bit / 8, static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8)));
      bool whole = true;
      refused += refusal([&] {
                   npy::Reader const reader{path};
                   std::uint64_t size = npy::size_of(reader.dtype());
                   for (std::uint64_t const n : reader.shape()) size *= n;
                   whole = reader.bytes().size() == size;
                 }) != "accepted";
      if (!whole) FAIL("bit " << bit << " of " << name);
      scratch.overwrite("file", bit / 8, bytes[bit / 8]);
    }
    for (std::size_t length = bytes.size(); length-- > 0;) {
      std::filesystem::resize_file(path, length);
      if (refusal([&] { npy::Reader{path}; }) == "accepted") FAIL(name << " accepted with " << length << " bytes");
    }
    INFO(name << ": " << refused << " of " << 8 * end);
    CHECK(refused > 7 * end);
  }
}

TEST_CASE("an array is seen as what it is, and where it is aligned", "[interop][npy]") {
  Scratch const scratch;
  npy::Reader const reader{files + "f4.npy"};
  CHECK(refusal([&] { reader.values<double>(); }) == files + "f4.npy: asked for as f8, but the dtype is f4");
  CHECK(refusal([&] { reader.values<std::uint16_t>(); }) == says("asked for as u2, but the dtype is f4"));
  std::string text = one("'<u4'");
  while ((10 + text.size()) % 2 == 0) text.insert(text.size() - 1, " ");
  npy::Reader const odd{scratch.write("odd", file(text, "1234"))};
  CHECK(odd.bytes().size() == 4);
  CHECK(refusal([&] { odd.values<std::uint32_t>(); }) ==
        says("the array: the data begin at an address that no multiple of 4 is"));
}

TEST_CASE("an array is there when it is complete, and not before", "[interop][npy]") {
  Scratch const scratch;
  std::string const path = scratch.path("file");
  Shape const shape{2, 2};
  { npy::Writer const writer{path, Dtype::u2, shape}; }
  CHECK(scratch.is_empty());
  npy::Writer writer{path, Dtype::u2, shape};
  writer.write(4, as_bytes("5678"));
  CHECK(refusal([&] { writer.finish(); }) == path + ": byte 0 of an array of 8 was not written");
  writer.write(0, as_bytes("123"));
  CHECK(refusal([&] { writer.finish(); }) == path + ": byte 3 of an array of 8 was not written");
  CHECK(refusal([&] { writer.write(6, as_bytes("123")); }) == path + ": 3 bytes at byte 6 of an array of 8");
  CHECK(!std::filesystem::exists(path));
  writer.write(3, as_bytes("4"));
  writer.finish();
  npy::Reader const reader{path};
  CHECK(std::memcmp(reader.bytes().data(), "12345678", 8) == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(reader.bytes().data()) % 64 == 0);
  CHECK(refusal([&] {
          npy::Writer{path, Dtype::f8, Shape{std::uint64_t{1} << 61}};
        }) == path + ": the shape has more than 2^64 - 1 bytes");
  CHECK(refusal([&] { npy::Writer{path, Dtype::f8, Shape(65, 1)}; }) == path + ": more than 64 dimensions");
}
