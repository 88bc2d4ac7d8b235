// Files of safetensors: those that the format's own package wrote are read, those that are written have its bytes, and hostile
// ones are refused by a sentence, in little memory. PARALLAX_TEST_FILES is the folder of the package's files: see make.py
// there.
#include "parallax/interop/safetensors.hpp"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "../support/size.hpp"
#include "scratch.hpp"

namespace st = parallax::safetensors;
using parallax::FileError;
using parallax::FormatError;
using parallax_test::little_endian;
using parallax_test::read_all;
using parallax_test::refusal;
using parallax_test::says;
using parallax_test::Scratch;
using st::Dtype;

namespace {

std::string const files = std::string{PARALLAX_TEST_FILES} + "/";

std::span<std::byte const> as_bytes(std::string_view text) { return std::as_bytes(std::span{text}); }

// A file with this header and these data.
std::string file(std::string_view header, std::string_view data = "") {
  return little_endian(std::uint64_t{header.size()}).append(header).append(data);
}

// A tensor's entry: dtype, shape and offsets as they stand in the header.
std::string entry(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return std::string{"{\"dtype\":\""}
             .append(dtype)
             .append("\",\"shape\":")
             .append(shape)
             .append(",\"data_offsets\":")
             .append(offsets) +
         "}";
}

// A header of one tensor "a" with one byte of data, but for what is given.
std::string one(std::string_view dtype = "U8", std::string_view shape = "[1]", std::string_view offsets = "[0,1]") {
  return "{\"a\":" + entry(dtype, shape, offsets) + "}";
}

// All that was read, walked: each byte of the data belongs to one tensor, which is found by its name.
bool is_whole(st::Reader const& reader) {
  std::uint64_t end = reader.header().data_begin();
  for (std::size_t i = 0; i < reader.size(); ++i) {
    st::Tensor const tensor = reader.tensor(i);
    std::uint64_t bytes = st::size_of(tensor.dtype);
    for (std::uint64_t const length : tensor.shape) bytes *= length;
    if (tensor.begin != end || tensor.end != end + bytes || reader.bytes(i).size() != bytes || reader.at(tensor.name) != i)
      return false;
    end = tensor.end;
  }
  return true;
}

struct Known {
  char const* name;  // of the tensor: what Python calls the dtype
  Dtype dtype;
};
// The tensors of dtypes.safetensors, in its order.
constexpr Known known[] = {
    {"uint64", Dtype::u64},
    {"int64", Dtype::i64},
    {"float64", Dtype::f64},
    {"complex64", Dtype::c64},
    {"float32", Dtype::f32},
    {"uint32", Dtype::u32},
    {"int32", Dtype::i32},
    {"bfloat16", Dtype::bf16},
    {"float16", Dtype::f16},
    {"uint16", Dtype::u16},
    {"int16", Dtype::i16},
    {"float8_e5m2fnuz", Dtype::f8_e5m2fnuz},
    {"float8_e4m3fnuz", Dtype::f8_e4m3fnuz},
    {"float8_e8m0fnu", Dtype::f8_e8m0},
    {"float8_e4m3fn", Dtype::f8_e4m3},
    {"float8_e5m2", Dtype::f8_e5m2},
    {"int8", Dtype::i8},
    {"uint8", Dtype::u8},
    {"bool", Dtype::boolean},
};

template <class T>
std::vector<T> values(st::Reader const& reader, std::string_view name) {
  std::span<T const> const found = reader.values<T>(name);
  return {found.begin(), found.end()};
}

}  // namespace

TEST_CASE("every dtype that the format's own package writes is read", "[interop][safetensors]") {
  st::Reader const reader{files + "dtypes.safetensors"};
  REQUIRE(reader.size() == std::size(known));
  for (std::size_t i = 0; i < std::size(known); ++i) {
    INFO(known[i].name);
    st::Tensor const tensor = reader.tensor(i);
    CHECK(tensor.name == known[i].name);
    CHECK(tensor.dtype == known[i].dtype);
    CHECK(tensor.shape == std::vector<std::uint64_t>{2, 3});
    std::span<std::byte const> const bytes = reader.bytes(i);
    REQUIRE(bytes.size() == 6 * st::size_of(known[i].dtype));
    for (std::size_t k = 0; k < bytes.size(); ++k)
      CHECK(std::to_integer<std::size_t>(bytes[k]) == (known[i].dtype == Dtype::boolean ? k % 2 : k));
  }
  CHECK(is_whole(reader));
  CHECK(reader.header().metadata().empty());
}

TEST_CASE("values, names and metadata that the format's own package wrote are read as they were", "[interop][safetensors]") {
  st::Reader const reader{files + "values.safetensors"};
  CHECK(values<float>(reader, "f32") == std::vector<float>{1.5f, -2.0f, 0.25f, 3.0f, 4.0f, 65536.0f});
  CHECK(reader.tensor(reader.at("f32")).shape == std::vector<std::uint64_t>{2, 3});
  CHECK(values<double>(reader, "f64") == std::vector<double>{1.0 / 3});
  CHECK(values<std::int64_t>(reader, "i64") == std::vector<std::int64_t>{-1, std::int64_t{1} << 62});
  CHECK(values<std::uint16_t>(reader, "u16") == std::vector<std::uint16_t>{1, 65535});
  CHECK(values<std::int8_t>(reader, "i8") == std::vector<std::int8_t>{-128, 127});
  CHECK(values<std::uint8_t>(reader, "bool") == std::vector<std::uint8_t>{1, 0, 1});
  CHECK(values<std::uint16_t>(reader, "half") == std::vector<std::uint16_t>{0x3c00, 0xc000});
  CHECK(values<std::uint16_t>(reader, "bf16") == std::vector<std::uint16_t>{0x3f80, 0xc000});
  CHECK(values<std::uint32_t>(reader, "scalar") == std::vector<std::uint32_t>{7});
  CHECK(reader.tensor(reader.at("scalar")).shape.empty());
  CHECK(values<float>(reader, "empty").empty());
  CHECK(reader.tensor(reader.at("empty")).shape == std::vector<std::uint64_t>{0, 4});
  CHECK(values<std::uint8_t>(reader, "a \"quoted\"\\\nnäme 词") == std::vector<std::uint8_t>{9});
  auto const& metadata = reader.header().metadata();
  REQUIRE(metadata.size() == 2);
  auto const value = [&](std::string_view key) {
    for (auto const& [name, text] : metadata)
      if (name == key) return std::string{text};
    return std::string{"none"};
  };
  CHECK(value("format") == "np");
  CHECK(value("line\nbreak \x01") == "\t\u00fc\U0001F600");
  CHECK(is_whole(reader));
  CHECK(st::Reader{files + "nothing.safetensors"}.size() == 0);
}

TEST_CASE("what is written has the bytes that the format's own package writes", "[interop][safetensors]") {
  std::string const expected = read_all(files + "dtypes.safetensors");
  std::vector<st::Spec> specs;
  for (Known const& tensor : known) specs.push_back({tensor.name, tensor.dtype, {2, 3}});
  Scratch const scratch;
  std::string const path = scratch.path("written");
  st::Writer writer{path, specs};
  for (std::size_t i = specs.size(); i-- > 0;) {
    std::string const data = expected.substr(writer.layout().begin(i), writer.layout().bytes(i));
    writer.write(i, data.size() / 2, as_bytes(data).subspan(data.size() / 2));
    writer.write(i, 0, as_bytes(data).first(data.size() / 2));
  }
  writer.finish();
  CHECK(read_all(path) == expected);

  st::Layout const nothing{{}};
  CHECK(std::string{reinterpret_cast<char const*>(nothing.header().data()), nothing.header().size()} ==
        read_all(files + "nothing.safetensors"));
}

TEST_CASE("names, metadata and shapes of any kind come back", "[interop][safetensors]") {
  std::vector<st::Spec> const specs{{"\x01\x1f\"\\\b\f\n\r\t/", Dtype::u8, {}},
                                    {"", Dtype::f64, {2, 1}},
                                    {"词\U0001F600", Dtype::bf16, {3}},
                                    {std::string(1000, 'n') + std::string(1, '\0'), Dtype::c64, {0, 7}}};
  st::Metadata const metadata{{"z", ""}, {"", "\x7f\"\\"}, {"a", std::string(5000, '\n')}};
  Scratch const scratch;
  st::Writer writer{scratch.path("written"), specs, metadata};
  for (std::size_t i = 0; i < specs.size(); ++i) {
    CHECK(writer.layout().begin(i) % st::size_of(specs[i].dtype) == 0);
    std::vector<std::byte> const bytes(writer.layout().bytes(i), static_cast<std::byte>(i + 1));
    writer.write(i, 0, bytes);
  }
  writer.finish();
  st::Reader const reader{scratch.path("written")};
  CHECK(is_whole(reader));
  REQUIRE(reader.size() == specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    std::size_t const at = reader.at(specs[i].name);
    CHECK(reader.tensor(at).dtype == specs[i].dtype);
    CHECK(reader.tensor(at).shape == specs[i].shape);
    for (std::byte const byte : reader.bytes(at)) CHECK(byte == static_cast<std::byte>(i + 1));
  }
  REQUIRE(reader.header().metadata().size() == metadata.size());
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    CHECK(reader.header().metadata()[i].first == metadata[i].first);
    CHECK(reader.header().metadata()[i].second == metadata[i].second);
  }
  CHECK(reader.header().data_begin() % 8 == 0);
}

TEST_CASE("a header is parsed by those who read it themselves", "[interop][safetensors]") {
  std::string const bytes = read_all(files + "values.safetensors");
  std::uint64_t const size = st::header_size(as_bytes(bytes).first(8), bytes.size(), "here");
  st::Header header = st::parse_header(as_bytes(bytes).first(size), bytes.size(), "here");
  CHECK(header.data_begin() == size);
  st::Header const moved = std::move(header);
  CHECK(moved.tensor(moved.find("a \"quoted\"\\\nnäme 词")).end == bytes.size() - 3);  // before bool
  CHECK(moved.find("no") == moved.size());
  CHECK(refusal([&] { st::parse_header(as_bytes(bytes).first(size - 1), bytes.size(), "here"); }) ==
        "here: the header has " + std::to_string(size) + " bytes, and " + std::to_string(size - 1) + " are given");
}

TEST_CASE("tensors are seen as what they are, and where they are aligned", "[interop][safetensors]") {
  Scratch const scratch;
  st::Reader const reader{files + "dtypes.safetensors"};
  CHECK(refusal([&] { reader.values<float>("float64"); }) ==
        files + "dtypes.safetensors: tensor 'float64': asked for as F32, but its dtype is F64");
  CHECK(refusal([&] { reader.values<std::uint8_t>("int8"); }) == says("asked for as U8, but its dtype is I8"));
  CHECK(refusal([&] { reader.values<std::uint16_t>("int16"); }) == says("asked for as U16, but its dtype is I16"));
  CHECK(refusal([&] { reader.values<float>("weight"); }) == files + "dtypes.safetensors: there is no tensor 'weight'");
  CHECK(reader.values<std::uint8_t>("float8_e8m0fnu").size() == 6);

  std::string header = "{\"a\":" + entry("U8", "[1]", "[0,1]") + ",\"b\":" + entry("F32", "[1]", "[1,5]") + "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  st::Reader const odd{scratch.write("odd", file(header, "12345"))};
  CHECK(odd.bytes(1).size() == 4);
  CHECK(refusal([&] { odd.values<float>("b"); }) == says("tensor 'b': the data begin at an address that no multiple of 4 is"));
}

TEST_CASE("tensors come in the order of their bytes, whatever the header's", "[interop][safetensors]") {
  Scratch const scratch;
  std::string const text = "{ \"b\" :" + entry("U8", "[1]", "[4,5]") + ",\r\n\t\"none\":" + entry("F32", "[3, 0 ]", "[4, 4]") +
                           ",\"a\":{\"data_offsets\": [0,4] , \"shape\" : [ ], \"dtype\":\"F32\"} } \n ";
  st::Reader const reader{scratch.write("file", file(text, "12345"))};
  REQUIRE(reader.size() == 3);
  CHECK(reader.tensor(0).name == "a");
  CHECK(reader.tensor(1).name == "none");
  CHECK(reader.tensor(1).shape == std::vector<std::uint64_t>{3, 0});
  CHECK(reader.tensor(2).name == "b");
  CHECK(is_whole(reader));
}

// Hostile files: how each is made, and what is said.
namespace {

struct Hostile {
  char const* name;
  std::string bytes;
  char const* sentence;
};

std::vector<Hostile> hostile() {
  std::string const a = entry("U8", "[1]", "[0,1]"), b = entry("U8", "[1]", "[1,2]");
  auto const two = [&](std::string_view first, std::string_view second) {
    return std::string{"{\"a\":"}.append(first).append(",\"b\":").append(second) + "}";
  };
  auto const named = [&](std::string_view name) { return std::string{"{\""}.append(name).append("\":") + a + "}"; };
  std::string many;
  for (int i = 0; i < 65; ++i) many += i ? ",1" : "1";
  std::string metadata;
  for (int i = 0; i < 65'537; ++i) metadata += (i ? ",\"" : "\"") + std::to_string(i) + "\":\"\"";
  std::string nested;
  for (int i = 0; i < 100'000; ++i) nested += "{\"a\":";
  auto const length = [](std::uint64_t claimed, std::string_view header) { return little_endian(claimed).append(header); };
  return {
      {"empty", "", "a file of 0 bytes is too short"},
      {"7 bytes", std::string{"\x02\0\0\0\0\0\0", 7}, "a file of 7 bytes is too short"},
      {"no header", file(""), "the header does not begin with {"},
      {"a length above the file's", length(3, "{}"), "the header's length is 3 bytes, in a file of 10"},
      {"a length above the limit", length(33'554'433, "{}"), "the header's length is 33554433 bytes, more than the 33554432"},
      {"a length above the format's", length(100'000'001, "{}"), "the header's length is 100000001 bytes, more than"},
      {"a length of 2^63", length(std::uint64_t{1} << 63, "{}"), "the header's length is 9223372036854775808 bytes, more than"},
      {"a length of 2^64 - 1", length(~std::uint64_t{0}, "{}"), "the header's length is 18446744073709551615 bytes, more than"},
      {"a length of 2^64 - 8", length(~std::uint64_t{7}, "{}"), "the header's length is 18446744073709551608 bytes, more than"},
      {"a length of one less", length(1, "{}"), "expected \", at byte 9, where the header ends"},
      {"a pickle", std::string{"\x80\x04\x95\x10\0\0\0\0\0\0\0\0", 12},
       "the header's length is 278201472 bytes, more than the"},
      {"a list", file("[]"), "the header does not begin with {"},
      {"a number", file("1"), "the header does not begin with {"},
      {"a blank before it", file(" {}"), "the header does not begin with {"},
      {"a mark of the order of bytes", file("\xef\xbb\xbf{}"), "the header does not begin with {"},
      {"no end", file("{"), "expected \", at byte 9, where the header ends"},
      {"two objects", file("{}{}"), "something stands behind the header's object, at byte 10"},
      {"a NUL behind it", file(std::string{"{}\0", 3}), "something stands behind the header's object"},
      {"a comma too many", file("{\"a\":" + a + ",}", "1"), "expected \""},
      {"a comma at first", file("{,}", ""), "expected \", at byte 9"},
      {"no comma", file("{\"a\":" + a + "\"b\":" + b + "}", "12"), "expected , or }"},
      {"no colon", file("{\"a\"" + a + "}", "1"), "expected :"},
      {"single quotes", file("{'a':" + a + "}", "1"), "expected \", at byte 9"},
      {"a name without an end", file("{\"a"), "a string has no end"},
      {"a name that ends in an escape", file("{\"\\"), "a string has no end"},
      {"a line in a name", file(named("a\nb"), "1"), "a string holds a control character"},
      {"a line in a name behind an escape", file(named("\\n\nb"), "1"), "a string holds a control character"},
      {"an unknown escape", file(named("\\x41"), "1"), "an escape is not known, at byte 11"},
      {"an escape of three digits", file(named("\\u041"), "1"), "an escape has not four hexadecimal digits"},
      {"half of a pair", file(named("\\ud800"), "1"), "an escape is half of a pair"},
      {"the other half", file(named("\\udc00"), "1"), "an escape is half of a pair"},
      {"a pair of first halves", file(named("\\ud800\\ud800"), "1"), "an escape is half of a pair"},
      {"half of a pair and a line", file(named("\\ud800\\n"), "1"), "an escape is not known"},
      {"a byte of no character", file(named("\xff"), "1"), "the header is no UTF-8, at byte 10"},
      {"a character that is longer than need be", file(named("\xc0\xaf"), "1"), "the header is no UTF-8"},
      {"a surrogate", file(named("\xed\xa0\x80"), "1"), "the header is no UTF-8"},
      {"a character above the last", file(named("\xf4\x90\x80\x80"), "1"), "the header is no UTF-8"},
      {"half a character", file("{\"\xe8\xaf"), "the header is no UTF-8, at byte 10"},
      {"a name twice", file("{\"a\":" + a + ",\"a\":" + b + "}", "12"), "two tensors are called 'a'"},
      {"a name twice, once by an escape", file("{\"a\":" + a + ",\"\\u0061\":" + b + "}", "12"), "two tensors are called 'a'"},
      {"a name twice, far apart", file("{\"a\":" + a + ",\"b\":" + b + ",\"a\":" + entry("U8", "[1]", "[2,3]") + "}", "123"),
       "two tensors are called 'a'"},
      {"a name twice, without bytes",
       file("{\"a\":" + entry("U8", "[0]", "[0,0]") + ",\"a\":" + entry("U8", "[0]", "[0,0]") + "}"),
       "two tensors are called 'a'"},
      {"metadata twice", file("{\"__metadata__\":{},\"__metadata__\":{}}"), "there are two '__metadata__'"},
      {"a key of metadata twice", file("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}"), "'__metadata__' has two keys 'k'"},
      {"metadata of a number", file("{\"__metadata__\":{\"k\":1}}"), "expected \""},
      {"metadata of a list", file("{\"__metadata__\":[]}"), "expected {"},
      {"metadata of null", file("{\"__metadata__\":null}"), "expected {"},
      {"metadata within metadata", file("{\"__metadata__\":{\"k\":{}}}"), "expected \""},
      {"metadata that is a tensor", file("{\"__metadata__\":" + a + "}", "1"), "expected \""},
      {"too many metadata", file("{\"__metadata__\":{" + metadata + "}}"), "has more than the 65536 entries"},
      {"a tensor of null", file("{\"a\":null}"), "expected {"},
      {"a tensor of a list", file("{\"a\":[]}"), "expected {"},
      {"a tensor without fields", file("{\"a\":{}}"), "tensor 'a': no field 'dtype'"},
      {"no dtype", file("{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", "1"), "tensor 'a': no field 'dtype'"},
      {"no shape", file("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", "1"), "tensor 'a': no field 'shape'"},
      {"no offsets", file("{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", "1"), "tensor 'a': no field 'data_offsets'"},
      {"two dtypes", file("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", "1"),
       "tensor 'a': two fields 'dtype'"},
      {"two shapes", file("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,1]}}", "1"),
       "tensor 'a': two fields 'shape'"},
      {"two offsets", file("{\"a\":{\"data_offsets\":[0,1],\"data_offsets\":[0,1],\"dtype\":\"U8\",\"shape\":[1]}}", "1"),
       "tensor 'a': two fields 'data_offsets'"},
      {"an unknown field", file("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"strides\":[1]}}", "1"),
       "tensor 'a': unknown field 'strides'"},
      {"an unknown dtype", file(one("F31"), "1"), "tensor 'a': dtype 'F31' is not known"},
      {"a dtype in small letters", file(one("u8"), "1"), "tensor 'a': dtype 'u8' is not known"},
      {"a dtype with a NUL", file(one("U8\\u0000"), "1"), "tensor 'a': dtype 'U8\\x00' is not known"},
      {"a dtype of a number", file("{\"a\":{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}}", "1"), "expected \""},
      {"F4", file(one("F4", "[2]"), "1"), "dtype 'F4' has less than a byte an element"},
      {"F6_E2M3", file(one("F6_E2M3", "[4]", "[0,3]"), "123"), "dtype 'F6_E2M3' has less than a byte an element"},
      {"F6_E3M2", file(one("F6_E3M2", "[4]", "[0,3]"), "123"), "dtype 'F6_E3M2' has less than a byte an element"},
      {"a shape of a number", file(one("U8", "1"), "1"), "expected ["},
      {"a shape of text", file(one("U8", "[\"1\"]"), "1"), "expected a number"},
      {"a shape within a shape", file(one("U8", "[[1]]"), "1"), "expected a number"},
      {"a negative length", file(one("U8", "[-1]"), "1"), "a number is negative"},
      {"minus zero", file(one("U8", "[-0]", "[0,0]")), "a number is negative"},
      {"a fraction", file(one("U8", "[1.0]"), "1"), "a number is no integer"},
      {"an exponent", file(one("U8", "[1e0]"), "1"), "a number is no integer"},
      {"a length that begins with 0", file(one("U8", "[01]"), "1"), "a number begins with 0"},
      {"a length that begins with +", file(one("U8", "[+1]"), "1"), "expected a number"},
      {"infinity", file(one("U8", "[Infinity]"), "1"), "expected a number"},
      {"a length of 2^64", file(one("U8", "[18446744073709551616]"), "1"), "a number is above 2^64 - 1"},
      {"a length of 40 digits", file(one("U8", "[" + std::string(40, '9') + "]"), "1"), "a number is above 2^64 - 1"},
      {"a comma in a shape", file(one("U8", "[1,]"), "1"), "expected a number"},
      {"a shape without an end", file("{\"a\":{\"dtype\":\"U8\",\"shape\":[1"),
       "expected , or ], at byte 37, where the header ends"},
      {"65 dimensions", file(one("U8", "[" + many + "]"), "1"), "tensor 'a': more than 64 dimensions"},
      {"a product of 2^64", file(one("U8", "[4294967296,4294967296]"), "1"), "the shape has more than 2^64 - 1 elements"},
      {"a product of 2^64 before a 0", file(one("U8", "[4294967296,4294967296,0]", "[0,0]")),
       "the shape has more than 2^64 - 1 elements"},
      {"2^61 doubles", file(one("F64", "[2305843009213693952]", "[0,0]")), "dtype and shape have more than 2^64 - 1 bytes"},
      {"2^40 elements in a byte", file(one("U8", "[1099511627776]"), "1"),
       "data_offsets [0, 1] are 1 bytes, dtype U8 and shape are 1099511627776"},
      {"a tensor of 1 TB in a small file", file(one("U8", "[1099511627776]", "[0,1099511627776]"), "1"),
       "data_offsets [0, 1099511627776] end behind the file's 1 bytes of data"},
      {"a byte too few", file(one("U8", "[2]", "[0,2]"), "1"), "data_offsets [0, 2] end behind the file's 1 bytes of data"},
      {"fewer bytes than the shape has", file(one("F32", "[2]", "[0,4]"), "1234"),
       "tensor 'a': data_offsets [0, 4] are 4 bytes, dtype F32 and shape are 8"},
      {"more bytes than the shape has", file(one("F32", "[]", "[0,8]"), "12345678"),
       "tensor 'a': data_offsets [0, 8] are 8 bytes, dtype F32 and shape are 4"},
      {"offsets backwards", file(one("U8", "[1]", "[1,0]"), "1"), "tensor 'a': data_offsets [1, 0] end before they begin"},
      {"an offset of 2^64 - 1", file(one("U8", "[1]", "[18446744073709551615,0]"), "1"), "end before they begin"},
      {"a negative offset", file(one("U8", "[1]", "[-1,0]"), "1"), "a number is negative"},
      {"one offset", file(one("U8", "[1]", "[0]"), "1"), "expected ,"},
      {"three offsets", file(one("U8", "[1]", "[0,1,2]"), "1"), "expected ]"},
      {"a hole at first", file(one("U8", "[1]", "[1,2]"), "12"),
       "leave a hole behind those of the tensor before it, which end at 0"},
      {"a hole", file(two(a, entry("U8", "[1]", "[2,3]")), "123"), "tensor 'b': data_offsets [2, 3] leave a hole"},
      {"an overlap", file(two(entry("U8", "[2]", "[0,2]"), entry("U8", "[2]", "[1,3]")), "123"),
       "tensor 'b': data_offsets [1, 3] overlap those of a tensor before it, which end at 2"},
      {"the same bytes twice", file(two(a, a), "1"), "tensor 'b': data_offsets [0, 1] overlap"},
      {"no bytes within another's", file(two(entry("U8", "[2]", "[0,2]"), entry("U8", "[0]", "[1,1]")), "12"), "overlap"},
      {"bytes behind the last tensor", file(one(), "12"), "1 bytes at the file's end belong to no tensor"},
      {"bytes behind no tensor", file("{}", "PK"), "2 bytes at the file's end belong to no tensor"},
      {"100,000 objects in one another", file(nested), "tensor 'a': unknown field 'a'"},
      {"100,000 lists in one another", file("{\"a\":{\"shape\":" + std::string(100'000, '[')), "expected a number"},
      {"a name of a million bytes", file(named(std::string(1'000'000, 'n') + "\xe8\xaf\x8d"), ""),
       "nnnn…': data_offsets [0, 1] end behind"},
  };
}

}  // namespace

TEST_CASE("a hostile file is refused by a sentence", "[interop][safetensors][hostile]") {
  Scratch const scratch;
  std::vector<Hostile> const all = hostile();
  CHECK(all.size() >= 60);
  for (Hostile const& made : all) {
    INFO(made.name);
    std::string const path = scratch.write("hostile", made.bytes);
    std::string const said = refusal([&] { st::Reader{path}; });
    CHECK(said == says(made.sentence));
    CHECK(said.rfind(path + ": ", 0) == 0);
    CHECK(said.size() < 600);
    CHECK(refusal([&] { st::parse_header(as_bytes(made.bytes), made.bytes.size(), path); }) == said);
  }
  double const growth = parallax_test::resident_growth([&] {
    for (Hostile const& made : all) refusal([&] { st::Reader{scratch.write("hostile", made.bytes)}; });
  });
  INFO(growth << " MiB");
  CHECK(growth >= 0);
  if (parallax_test::resident_is_ours) CHECK(growth <= 64);
}

TEST_CASE("what is no regular file is refused, and does not block", "[interop][safetensors][hostile]") {
  Scratch const scratch;
  auto const said = [&](std::string const& path) { return refusal([&] { st::Reader{path}; }); };
  CHECK(said(scratch.path("")) == says("this is a directory, and no regular file"));
  REQUIRE(::mkfifo(scratch.path("fifo").c_str(), 0600) == 0);
  CHECK(said(scratch.path("fifo")) == says("this is a FIFO, and no regular file"));
  CHECK(said("/dev/zero") == "/dev/zero: this is a device, and no regular file");
  CHECK(said(scratch.path("no")) == scratch.path("no") + ": open: No such file or directory");
  std::filesystem::create_symlink("loop", scratch.path("loop"));
  CHECK(said(scratch.path("loop")) == says("open: Too many levels of symbolic links"));
  std::filesystem::create_symlink("here", scratch.path("there"));
  CHECK(said(scratch.path("there")) == says("open: No such file or directory"));
  scratch.write("here", file(one(), "1"));
  CHECK(said(scratch.path("there")) == "accepted");
  try {
    st::Reader{scratch.path("no")};
    FAIL("accepted");
  } catch (FileError const& error) {
    CHECK(error.code() == ENOENT);
    CHECK(error.path() == scratch.path("no"));
    CHECK(error.detail() == "open: No such file or directory");
  }
}

TEST_CASE("a file that ends early is refused at every byte", "[interop][safetensors][hostile]") {
  Scratch const scratch;
  std::string const whole = read_all(files + "values.safetensors");
  std::string const path = scratch.write("short", whole);
  for (std::size_t length = whole.size(); length-- > 0;) {
    std::filesystem::resize_file(path, length);
    if (refusal([&] { st::Reader{path}; }) == "accepted") FAIL("accepted with " << length << " bytes");
  }
  CHECK(refusal([&] { st::Reader{scratch.write("long", whole + '\0')}; }) ==
        says("1 bytes at the file's end belong to no tensor"));
}

TEST_CASE("a file with any bit flipped is refused, or is a file", "[interop][safetensors][hostile]") {
  Scratch const scratch;
  for (char const* const name : {"values.safetensors", "dtypes.safetensors"}) {
    std::string const bytes = read_all(files + name);
    std::size_t const end = st::header_size(as_bytes(bytes), bytes.size(), name);
    std::size_t refused = 0;
    std::string const path = scratch.write("flipped", bytes);
    for (std::size_t bit = 0; bit < 8 * end; ++bit) {
      scratch.overwrite("flipped", bit / 8, static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8)));
      bool whole = true;
      refused += refusal([&] { whole = is_whole(st::Reader{path}); }) != "accepted";
      if (!whole) FAIL("bit " << bit << " of " << name);
      scratch.overwrite("flipped", bit / 8, bytes[bit / 8]);
    }
    INFO(refused << " of " << 8 * end);
    CHECK(refused > 4 * end);  // what is left changes a name, or a dtype to another of its size
  }
}

TEST_CASE("a header of the most that is read takes no more than 64 MiB", "[interop][safetensors][hostile]") {
  Scratch const scratch;
  auto const most =
      parallax_test::sized<std::uint64_t>(st::most_header_bytes / 16, st::most_header_bytes, st::most_header_bytes);
  // Tensors without elements, named by `name(i)`, until the header is full.
  auto const full_of = [&](auto const& name) {
    std::string const path = scratch.path("full");
    std::string text = "{";
    for (std::uint64_t i = 0; text.size() + 200 < most; ++i)
      text.append(i ? ",\"" : "\"").append(name(i)).append("\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}");
    text.push_back('}');
    text.resize(most, ' ');
    scratch.write("full", file(text));
    return path;
  };
  auto const short_name = [](std::uint64_t i) {  // in no order, of the fewest letters
    constexpr std::string_view letters = "yPqaXk5rBmZ0wHcJ8tLdVgF3nSxUoR7iE2zQjM9hKuCpT6lWfAvYbG1sNeD4OI-_";
    std::string result;
    do result.push_back(letters[i % 64]);
    while (i /= 64);
    return result;
  };
  auto const grown = [&](std::string const& path, std::string const& expected) {
    return parallax_test::resident_growth([&] {
      std::string const said = refusal([&] {
        st::Reader const reader{path};
        if (reader.header().find("no such name") != reader.size()) std::abort();
      });
      if (said.find(expected) == said.npos) std::abort();
    });
  };
  auto const check = [&](char const* what, double growth) {
    INFO(what << ": " << growth << " MiB");
    CHECK(growth >= 0);
    if (parallax_test::resident_is_ours) CHECK(growth <= 64);
    std::printf("%s: %.1f MiB\n", what, growth);
  };
  check("as many tensors as there is room for", grown(full_of(short_name), "accepted"));
  if (parallax_test::sized(false, false, true)) {
    check("names with escapes", grown(full_of([&](std::uint64_t i) { return "\\n" + short_name(i); }), "accepted"));
    check("the same name", grown(full_of([](std::uint64_t) { return "a"; }), "two tensors are called 'a'"));
    check("one name", grown(scratch.write("name", file("{\"" + std::string(most - 4, 'n') + "\":")), "expected {"));
    check("one name of escapes",
          grown(scratch.write("name", file("{\"" + std::string(most - 3, '\\') + "\"")), "a string has no end"));
  }
}

TEST_CASE("a sparse file of a terabyte takes no memory", "[interop][safetensors][hostile]") {
  Scratch const scratch;
  auto const sparse = [&](std::string const& begin) {
    std::string const path = scratch.write("sparse", begin);
    std::filesystem::resize_file(path, std::uint64_t{1} << 40);
    return path;
  };
  auto const said = [&](std::string const& begin) { return refusal([&, path = sparse(begin)] { st::Reader{path}; }); };
  CHECK(said("") == says("the header does not begin with {"));
  CHECK(said(little_endian((std::uint64_t{1} << 40) - 8)) == says("the header's length is 1099511627768 bytes, more than"));
  CHECK(said(little_endian(std::uint64_t{100'000'000}) + "{") == says("the header's length is 100000000 bytes, more than"));
  CHECK(said(little_endian(st::most_header_bytes) + "{") == says("expected \", at byte 9"));
  CHECK(said(file("{}")) == says("1099511627766 bytes at the file's end belong to no tensor"));
  double const growth = parallax_test::resident_growth([&] {
    said("");
    said(little_endian(st::most_header_bytes) + "{");
    std::string header = one("U8", "[1099511627624]", "[0,1099511627624]");
    header.resize(144, ' ');
    st::Reader const reader{sparse(file(header))};  // a file of a terabyte
    if (reader.bytes(0).back() != std::byte{0}) std::abort();
  });
  CHECK(growth >= 0);
  if (parallax_test::resident_is_ours) CHECK(growth <= 64);
}

TEST_CASE("what cannot be written is refused before a file is made", "[interop][safetensors]") {
  Scratch const scratch;
  auto const said = [&](std::vector<st::Spec> specs, st::Metadata const& metadata = {}) {
    return refusal([&] { st::Writer{scratch.path("new"), std::move(specs), metadata}; });
  };
  CHECK(said({{"a", Dtype::u8, {1}}, {"a", Dtype::f32, {1}}}) == scratch.path("new") + ": two: tensor 'a'");
  CHECK(said({{"__metadata__", Dtype::u8, {1}}}) == says("tensor '__metadata__': the name is the format's own"));
  CHECK(said({{"\xff", Dtype::u8, {1}}}) == says("tensor '\\xff' is no UTF-8"));
  CHECK(said({{"a", Dtype::u8, {std::uint64_t{1} << 32, std::uint64_t{1} << 32}}}) == says("more than 2^64 - 1 elements"));
  CHECK(said({{"a", Dtype::f64, {std::uint64_t{1} << 61}}}) == says("tensor 'a': it has more than 2^64 - 1 bytes"));
  CHECK(said({{"a", Dtype::u8, {~std::uint64_t{0}}}, {"b", Dtype::u8, {1}}}) ==
        says("the tensors have more than 2^64 - 1 bytes"));
  CHECK(said({{"a", Dtype::u8, {~std::uint64_t{0}}}}) == says("the file would have more than 2^64 - 1 bytes"));
  CHECK(said({{"a", Dtype::u8, {std::uint64_t{1} << 63}}}) == says("a file has no 92233720368547759"));
  CHECK(said({{"a", Dtype::u8, std::vector<std::uint64_t>(65, 1)}}) == says("tensor 'a': more than 64 dimensions"));
  CHECK(said({}, {{"k", "1"}, {"k", "2"}}) == says("two: metadata 'k'"));
  CHECK(said({}, {{"k", "\xff"}}) == says("metadata 'k': the value is no UTF-8"));
  CHECK(said({}, {{"k", std::string(st::most_header_bytes, 'v')}}) == says("the header would have"));
  CHECK(scratch.is_empty());
}

TEST_CASE("a file is there when it is complete, and not before", "[interop][safetensors]") {
  Scratch const scratch;
  std::string const path = scratch.write("file", "the old one");
  std::vector<st::Spec> const specs{{"a", Dtype::u8, {3}}, {"b", Dtype::f32, {2}}};
  std::string const data = "12345678";
  {
    st::Writer writer{path, specs};
    writer.write(1, 0, as_bytes(data));
    CHECK(std::filesystem::exists(path + ".part"));
  }
  CHECK(!std::filesystem::exists(path + ".part"));
  CHECK(read_all(path) == "the old one");

  std::filesystem::create_symlink(path, path + ".part");  // somebody wants the old one overwritten
  st::Writer writer{path, specs};
  CHECK(read_all(path) == "the old one");
  writer.write(1, 4, as_bytes(data).first(4));
  CHECK(refusal([&] { writer.finish(); }) == path + ": tensor 'b': byte 0 of 8 was not written");
  writer.write(1, 0, as_bytes(data).first(3));
  CHECK(refusal([&] { writer.finish(); }) == path + ": tensor 'b': byte 3 of 8 was not written");
  writer.write(1, 2, as_bytes(data).first(2));
  CHECK(refusal([&] { writer.finish(); }) == path + ": tensor 'a': byte 0 of 3 was not written");
  CHECK(refusal([&] { writer.write(0, 1, as_bytes(data).first(3)); }) == path + ": tensor 'a': 3 bytes at byte 1 of 3");
  CHECK(refusal([&] { writer.write(0, ~std::uint64_t{0}, as_bytes(data).first(3)); }) == says("tensor 'a': 3 bytes at byte"));
  CHECK(refusal([&] { writer.write(2, 0, as_bytes(data).first(3)); }) == path + ": there is no tensor of number 2");
  writer.write(0, 0, as_bytes(data).first(3));
  writer.write(1, 0, as_bytes(data));  // once more: the last counts
  writer.write(1, 8, {});
  CHECK(read_all(path) == "the old one");
  writer.finish();
  CHECK(!std::filesystem::exists(path + ".part"));
  CHECK(refusal([&] { writer.finish(); }) == says("finished already"));
  CHECK(refusal([&] { writer.write(0, 0, as_bytes(data).first(3)); }) == says("written to after finish()"));
  st::Reader const reader{path};
  CHECK(std::memcmp(reader.bytes(reader.at("a")).data(), "123", 3) == 0);
  CHECK(std::memcmp(reader.bytes(reader.at("b")).data(), "12345678", 8) == 0);
}

TEST_CASE("a file is written from a hundred thousand pieces in any order", "[interop][safetensors]") {
  Scratch const scratch;
  std::size_t const rows = parallax_test::sized(5'000, 100'000, 1'000'000);
  std::vector<std::uint32_t> order(rows);
  for (std::size_t i = 0; i < rows; ++i) order[i] = static_cast<std::uint32_t>(i);
  std::shuffle(order.begin(), order.end(), std::mt19937{7});
  st::Writer writer{scratch.path("table"), {{"table", Dtype::u32, {rows, 2}}}};
  for (std::size_t i = 0; i < rows; ++i) {
    if (i + 1 == rows)
      CHECK(refusal([&] { writer.finish(); }) ==
            says("byte " + std::to_string(8 * std::uint64_t{order[i]}) + " of " + std::to_string(8 * rows)));
    std::uint32_t const row[2] = {order[i], ~order[i]};
    writer.write(0, 8 * std::uint64_t{order[i]}, std::as_bytes(std::span{row}));
  }
  writer.finish();
  st::Reader const reader{scratch.path("table")};
  std::span<std::uint32_t const> const table = reader.values<std::uint32_t>("table");
  std::size_t right = 0;
  for (std::size_t i = 0; i < rows; ++i) right += table[2 * i] == i && table[2 * i + 1] == ~static_cast<std::uint32_t>(i);
  CHECK(right == rows);
}

TEST_CASE("a writer says which system call failed", "[interop][safetensors]") {
  Scratch const scratch;
  std::vector<st::Spec> const specs{{"a", Dtype::u8, {4096}}};
  CHECK(refusal([&] {
          st::Writer{scratch.path("no/file"), specs};
        }) == scratch.path("no/file") + ".part: open: No such file or directory");
  CHECK(refusal([&] { st::Writer{scratch.path(""), specs}; }) == says("this is a directory, and no regular file"));
  st::Writer first{scratch.path("file"), specs};
  first.write(0, 0, std::vector<std::byte>(4096));
  st::Writer second{scratch.path("file"), specs};
  CHECK(refusal([&] { first.finish(); }) == says("another writer replaced"));
  std::filesystem::remove(scratch.path("file.part"));
  second.write(0, 0, std::vector<std::byte>(4096));
  CHECK(refusal([&] { second.finish(); }) == says("another writer replaced"));

  ::rlimit limit;
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
  ::rlimit const less{1000, limit.rlim_max};
  st::Writer third{scratch.path("third"), specs};
  std::vector<std::byte> const bytes(4096, std::byte{7});
  int code = 0;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &less) == 0);
  std::string const said = refusal([&] { st::Writer{scratch.path("large"), specs}; });
  std::string const said_later = refusal([&] {  // a short write, and then none
    try {
      third.write(0, 0, bytes);
    } catch (FileError const& error) {
      code = error.code();
      throw;
    }
  });
  ::setrlimit(RLIMIT_FSIZE, &limit);
  CHECK(said == scratch.path("large") + ".part: pwrite: File too large");
  CHECK(!std::filesystem::exists(scratch.path("large.part")));
  CHECK(said_later == scratch.path("third") + ".part: pwrite: File too large");
  CHECK(code == EFBIG);
  CHECK(refusal([&] { third.finish(); }) == says("tensor 'a': byte 0 of 4096 was not written"));
  third.write(0, 0, bytes);
  third.finish();
  CHECK(st::Reader{scratch.path("third")}.bytes(0).back() == std::byte{7});
}

TEST_CASE("any file is written in pieces, and mapped", "[interop][file]") {
  Scratch const scratch;
  std::string const path = scratch.path("file");
  parallax::NewFile file{path, 8};
  CHECK(file.first_missing() == 0);
  file.write(4, as_bytes("56"));
  CHECK(file.first_missing() == 0);
  CHECK(refusal([&] { file.finish(); }) == path + ": byte 0 of 8 was not written");
  file.write(0, as_bytes("12"));
  CHECK(file.first_missing() == 2);
  parallax::NewFile moved{std::move(file)};
  moved.write(1, as_bytes("2345"));
  CHECK(moved.first_missing() == 6);
  CHECK(refusal([&] { moved.write(7, as_bytes("89")); }) == path + ": 2 bytes at byte 7 of a file of 8");
  moved.write(6, as_bytes("78"));
  CHECK(moved.first_missing() == moved.size());
  moved.finish();
  parallax::MappedFile mapped{path};
  std::span<std::byte const> const bytes = mapped.bytes();
  parallax::MappedFile const other{std::move(mapped)};
  CHECK(other.bytes().data() == bytes.data());
  CHECK(std::memcmp(bytes.data(), "12345678", 8) == 0);
  parallax::NewFile{scratch.path("nothing"), 0}.finish();
  CHECK(parallax::MappedFile{scratch.path("nothing")}.bytes().empty());
}
