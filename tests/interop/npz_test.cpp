// Archives of NumPy's: those that numpy.savez wrote are read by name, others are refused by a sentence. PARALLAX_TEST_FILES is the
// folder of NumPy's files: see make.py there.
#include "parallax/interop/npz.hpp"

#include <string>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "scratch.hpp"

namespace npz = parallax::npz;
using parallax::npy::Dtype;
using parallax_test::little_endian;
using parallax_test::read_all;
using parallax_test::refusal;
using parallax_test::says;
using parallax_test::Scratch;

namespace {

std::string const files = std::string{PARALLAX_TEST_FILES} + "/";
using Shape = std::vector<std::uint64_t>;

// The bits of the CRC-32 by its definition: a division of polynomials.
std::uint32_t divided(std::string_view bytes) {
  std::uint32_t rest = 0xffffffff;
  for (char const c : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      bool const odd = ((rest ^ static_cast<unsigned char>(c) >> bit) & 1) != 0;
      rest = rest >> 1 ^ (odd ? 0xedb88320 : 0);
    }
  return ~rest;
}

std::string array_of(std::string_view data) {
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (" + std::to_string(data.size()) + ",), }\n";
  std::string bytes{"\x93NUMPY\x01\0", 8};
  return bytes.append(little_endian(static_cast<std::uint16_t>(header.size()))).append(header).append(data);
}

struct Member {
  std::string name, bytes;
  std::uint16_t method = 0, flags = 0;
};

// An archive as zip has it, with numbers of 64 bits where they are asked for.
std::string archive(std::vector<Member> const& members, bool wide = false, std::string const& remark = "") {
  auto const n16 = [](std::size_t n) { return little_endian(static_cast<std::uint16_t>(n)); };
  auto const n32 = [](std::size_t n) { return little_endian(static_cast<std::uint32_t>(n)); };
  auto const n64 = [](std::size_t n) { return little_endian(static_cast<std::uint64_t>(n)); };
  std::string all, list;
  for (Member const& one : members) {
    std::string const crc = n32(divided(one.bytes)), size = wide ? n32(0xffffffff) : n32(one.bytes.size());
    std::size_t const begin = all.size();
    std::string const common = n16(20) + n16(one.flags) + n16(one.method) + n32(0) + crc;
    all += "PK\3\4" + common + size + size + n16(one.name.size()) + n16(5) + one.name + "extra" + one.bytes;
    std::string const more =
        wide ? n16(9) + n16(0) + n16(1) + n16(24) + n64(one.bytes.size()) + n64(one.bytes.size()) + n64(begin) : "";
    list += "PK\1\2" + n16(20) + common + size + size + n16(one.name.size()) + n16(more.size()) + n16(0) + n16(0) + n16(0) +
            n32(0) + (wide ? n32(0xffffffff) : n32(begin)) + one.name + more;
  }
  std::size_t const at = all.size(), count = members.size();
  all += list;
  if (wide)
    all += "PK\6\6" + n64(44) + n16(45) + n16(45) + n32(0) + n32(0) + n64(count) + n64(count) + n64(list.size()) + n64(at) +
           "PK\6\7" + n32(0) + n64(at + list.size()) + n32(1);
  return all + "PK\5\6" + n16(0) + n16(0) +
         (wide ? n16(0xffff) + n16(0xffff) + n32(0xffffffff) + n32(0xffffffff)
               : n16(count) + n16(count) + n32(list.size()) + n32(at)) +
         n16(remark.size()) + remark;
}

}  // namespace

TEST_CASE("arrays of numpy.savez are read by their names", "[interop][npz]") {
  npz::Reader const reader{files + "stored.npz"};
  CHECK(reader.names() == std::vector<std::string>{"rows", "ids", "none", "columns", "a/b", "arr_0"});
  CHECK(reader.contains("ids"));
  CHECK_FALSE(reader.contains("ids.npy"));
  CHECK(reader.dtype("rows") == Dtype::f4);
  CHECK(reader.shape("rows") == Shape{3, 4});
  CHECK(reader.values<float>("rows") == std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(reader.bytes("rows").size() == 48);
  CHECK(reader.values<std::int64_t>("ids") == std::vector<std::int64_t>{7, -1});
  CHECK(reader.shape("none") == Shape{0, 5});
  CHECK(reader.values<double>("none").empty());
  CHECK(reader.values<std::uint16_t>("a/b") == std::vector<std::uint16_t>{0x4100});  // the bits of 2.5
  CHECK(reader.values<std::uint16_t>("arr_0") == std::vector<std::uint16_t>{1, 2, 3});
  CHECK(refusal([&] { reader.values<double>("rows"); }) ==
        files + "stored.npz, array 'rows': asked for as f8, but the dtype is f4");
  CHECK(refusal([&] { reader.values<double>("columns"); }) == says("array 'columns': 'fortran_order': True, columns first"));
  CHECK(refusal([&] { reader.values<float>("row"); }) == files + "stored.npz: no array is called 'row'");
}

TEST_CASE("a compressed array is told of in one sentence", "[interop][npz]") {
  npz::Reader const reader{files + "compressed.npz"};
  CHECK(reader.names().size() == 5);
  CHECK(refusal([&] { reader.values<float>("rows"); }) ==
        files +
            "compressed.npz, array 'rows': it is compressed, and is not read: write it by numpy.savez instead of "
            "numpy.savez_compressed");
}

TEST_CASE("archives of any kind are read, and broken ones are refused by a sentence", "[interop][npz][hostile]") {
  Scratch const scratch;
  auto const open = [&](std::string const& bytes) { return npz::Reader{scratch.write("file", bytes)}; };
  Member const first{"first.npy", array_of("abc")}, second{"second.npy", array_of("")};
  for (bool const wide : {false, true}) {
    npz::Reader const reader =
        open(archive({first, {"note.txt", "PK\5\6"}, second}, wide, "a remark PK\5\6" + std::string(40, ' ')));
    CHECK(reader.names() == std::vector<std::string>{"first", "second"});
    CHECK(reader.values<std::uint8_t>("first") == std::vector<std::uint8_t>{'a', 'b', 'c'});
    CHECK(reader.values<std::uint8_t>("second").empty());
  }
  CHECK(open(archive({})).names().empty());
  auto const said = [&](std::string const& bytes) { return refusal([&] { open(bytes).values<std::uint8_t>("first"); }); };
  CHECK(said("") == says(": the file does not end as an archive of zip: it is no .npz"));
  CHECK(said(array_of("abc")) == says("it is no .npz"));
  CHECK(said(archive({first, first})) == says(": two arrays are called 'first'"));
  CHECK(said(archive({{"first.npy", first.bytes, 0, 1}})) == says(", array 'first': it is encrypted, and is not read"));
  CHECK(said(archive({{"first.npy", "no array"}})) == says(", array 'first': the file does not begin with \\x93NUMPY"));
  CHECK(said(archive({second})) == says(": no array is called 'first'"));
  std::string other = archive({first});
  other[other.find("abc")] = 'x';
  CHECK(said(other) == says("its bytes are not those that were archived: another CRC-32"));
}

TEST_CASE("an archive that ends early is refused, and with any bit flipped refused or the same", "[interop][npz][hostile]") {
  Scratch const scratch;
  for (bool const wide : {false, true}) {
    std::string const bytes = archive({{"a.npy", array_of("abc")}, {"b.npy", array_of("defg")}}, wide);
    std::string const path = scratch.write("file", bytes);
    std::vector<std::uint8_t> found;
    auto const read = [&] {
      return refusal([&] {
        npz::Reader const reader{path};
        found = reader.values<std::uint8_t>("a");
        if (!reader.contains("b")) throw parallax::FormatError(path, "b is not there");
      });
    };
    std::size_t refused = 0;
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      scratch.overwrite("file", bit / 8, static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8)));
      bool const accepted = read() == "accepted";
      refused += !accepted;
      if (accepted && found != std::vector<std::uint8_t>{'a', 'b', 'c'}) FAIL("bit " << bit);
      scratch.overwrite("file", bit / 8, bytes[bit / 8]);
    }
    CHECK(refused > 2 * bytes.size());
    for (std::size_t length = bytes.size(); length-- > 0;) {
      std::filesystem::resize_file(path, length);
      if (read() == "accepted") FAIL("accepted with " << length << " bytes");
    }
  }
}
