// The digests by which ranks over sockets prove who they are, against the vectors of FIPS 180-4 and RFC 4231.
#include "parallax/detail/transport/socket/sha256.hpp"

#include <string>
#include <string_view>

#include "../catch.hpp"

namespace px = parallax;

namespace {

std::span<std::byte const> bytes_of(std::string_view text) { return std::as_bytes(std::span{text.data(), text.size()}); }

std::string hex(px::detail::Digest const& digest) {
  std::string text;
  for (std::byte const byte : digest)
    for (int const shift : {4, 0}) text += "0123456789abcdef"[std::to_integer<unsigned>(byte) >> shift & 15u];
  return text;
}

std::string digest(std::string_view message) {
  px::detail::Sha256 hash;
  hash.add(bytes_of(message));
  return hex(hash.digest());
}

std::string code(std::string const& key, std::string const& message) {
  px::detail::Hmac hmac{bytes_of(key)};
  hmac.add(bytes_of(message));
  return hex(hmac.code());
}

}  // namespace

TEST_CASE("SHA-256 has the digests of the standard", "[comm][socket][sha256]") {
  CHECK(digest("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(digest("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(digest(std::string(1'000'000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("a message in pieces has the digest of the whole", "[comm][socket][sha256]") {
  std::string const message(200, 'x');
  for (std::size_t cut = 0; cut <= message.size(); ++cut) {
    px::detail::Sha256 hash;
    hash.add(bytes_of(message).first(cut));
    hash.add(bytes_of(message).subspan(cut));
    REQUIRE(hex(hash.digest()) == digest(message));
  }
}

TEST_CASE("HMAC-SHA-256 has the codes of the standard", "[comm][socket][sha256]") {
  CHECK(code(std::string(20, '\x0b'), "Hi There") == "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(code("Jefe", "what do ya want for nothing?") == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(code(std::string(20, '\xaa'), std::string(50, '\xdd')) ==
        "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  std::string counting;
  for (char next = 1; next <= 25; ++next) counting += next;
  CHECK(code(counting, std::string(50, '\xcd')) == "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  std::string const longer(131, '\xaa');
  CHECK(code(longer, "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  CHECK(code(longer,
             "This is a test using a larger than block-size key and a larger than block-size data. The key needs to be "
             "hashed before being used by the HMAC algorithm.") ==
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST_CASE("codes are compared as a whole", "[comm][socket][sha256]") {
  px::detail::Digest one{}, other{};
  CHECK(px::detail::same_code(one, other));
  for (std::size_t i = 0; i < one.size(); ++i) {
    other = one;
    other[i] = std::byte{1};
    CHECK_FALSE(px::detail::same_code(one, other));
  }
}
