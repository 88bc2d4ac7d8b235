// Files in NumPy's format .npz, as numpy.savez writes them: many arrays by name, in an archive of zip. For programs with arrays
// of Python to read, alone or beside the library. Facts of the archive: PKWARE's APPNOTE 6.3, sections 4.3 and 4.5.3.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallax/interop/npy.hpp"

namespace parallax::inline v0_2::npz {

namespace detail {

using namespace parallax::detail;

// Returns the CRC-32 of zip: of the polynomial 0x04c11db7, bits reversed.
std::uint32_t crc_of(std::span<std::byte const> bytes) noexcept;

}  // namespace detail

// An archive mapped into memory, to be read. Owns the mapping, and ends it. Const members may be called by several threads. A
// member given a name throws FormatError: no array has the name, or it is compressed, encrypted, or not as npy.hpp reads
// arrays.
class Reader {
 public:
  // Maps the file and reads the list of its arrays; anything else in it is passed over. FormatError: not a regular file, or no
  // archive, or two arrays of one name. FileError: a system call failed.
  explicit Reader(std::string path) : file_{std::move(path)} { list(); }

  // Returns the arrays' names, in the archive's order, without ".npy".
  std::vector<std::string> const& names() const noexcept { return names_; }
  // Returns true if there is an array of this name; throws nothing.
  bool contains(std::string_view name) const noexcept { return place_of(name) < names_.size(); }
  // Returns the dtype of an array's elements.
  npy::Dtype dtype(std::string_view name) const { return open(name).header.dtype; }
  // Returns the lengths of an array, row-major; none for a scalar.
  std::vector<std::uint64_t> shape(std::string_view name) const { return open(name).header.shape; }
  // Returns the elements' bytes, a view valid as long as this. numpy.savez aligns none of them; their checksum is not compared.
  std::span<std::byte const> bytes(std::string_view name) const { return open(name).elements(); }
  // Returns a copy of the elements. Throws FormatError if their checksum is not the archive's, or if T is another dtype's.
  template <class T>
  std::vector<T> values(std::string_view name) const {
    Opened const array = open(name);
    npy::detail::check_asked<T>(array.header.dtype, array.path);
    if (detail::crc_of(array.member) != array.crc)
      throw FormatError(array.path, "its bytes are not those that were archived: another CRC-32");
    std::span<std::byte const> const bytes = array.elements();
    std::vector<T> copy(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(copy.data(), bytes.data(), bytes.size());
    return copy;
  }

 private:
  struct Entry {
    std::uint64_t begin, bytes, stored;  // its local header; its bytes, and as they are stored
    std::uint32_t crc;
    unsigned method, flags;
  };
  struct Opened {
    std::string path;
    std::span<std::byte const> member;
    npy::Header header;
    std::uint32_t crc;

    std::span<std::byte const> elements() const { return member.subspan(static_cast<std::size_t>(header.begin)); }
  };

  [[noreturn]] void refuse(std::string_view why) const { throw FormatError(file_.path(), why); }
  // Returns `count` bytes of the file from byte `at` on. Throws FormatError if it ends before.
  std::span<std::byte const> piece(std::uint64_t at, std::uint64_t count) const {
    std::uint64_t const size = file_.bytes().size();
    if (at > size || count > size - at) refuse("the archive ends before what it lists");
    return file_.bytes().subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count));
  }
  std::uint64_t number(std::uint64_t at, std::size_t bytes) const {
    std::uint64_t value = 0;
    std::memcpy(&value, piece(at, bytes).data(), bytes);
    return value;
  }

  // Reads the archive's list, found by the record at its end, before a remark. Throws FormatError if there is none.
  void list() {
    std::uint64_t const size = file_.bytes().size(), record = 22, longest = 65'535;
    std::uint64_t end = size;  // the beginning of the record at the end
    for (std::uint64_t back = record; back <= size && back <= record + longest; ++back)
      if (number(size - back, 4) == 0x06054b50 && number(size - back + 20, 2) == back - record) {
        end = size - back;
        break;
      }
    if (end == size) refuse("the file does not end as an archive of zip: it is no .npz");
    std::uint64_t count = number(end + 10, 2), at = number(end + 16, 4);
    if (count == 0xffff || at == 0xffffffff || number(end + 12, 4) == 0xffffffff) {  // zip64
      if (end < 20 || number(end - 20, 4) != 0x07064b50) refuse("the archive has no record of zip64, which it needs");
      std::uint64_t const large = number(end - 12, 8);
      if (number(large, 4) != 0x06064b50) refuse("the archive has no record of zip64, which it needs");
      count = number(large + 32, 8), at = number(large + 48, 8);
    }
    for (std::uint64_t i = 0; i < count; ++i) at = add(at);
    for (std::size_t i = 0; i < names_.size(); ++i) by_name_.push_back(i);
    detail::heap_sort(std::span{by_name_}, [&](std::size_t a, std::size_t b) { return names_[a] < names_[b]; });
    for (std::size_t i = 1; i < by_name_.size(); ++i)
      if (names_[by_name_[i]] == names_[by_name_[i - 1]]) refuse("two arrays are called " + detail::shown(names_[by_name_[i]]));
  }

  // Returns the number of an array, or names_.size() if there is none of this name.
  std::size_t place_of(std::string_view name) const noexcept {
    auto const found = std::partition_point(by_name_.begin(), by_name_.end(), [&](std::size_t i) { return names_[i] < name; });
    return found != by_name_.end() && names_[*found] == name ? *found : names_.size();
  }

  // Takes the entry at byte `at` of the list, and returns the byte of the next one. Throws FormatError.
  std::uint64_t add(std::uint64_t at) {
    if (number(at, 4) != 0x02014b50) refuse("the archive's list is broken");
    std::uint64_t const name_bytes = number(at + 28, 2), more_bytes = number(at + 30, 2), remark = number(at + 32, 2);
    auto const text = piece(at + 46, name_bytes);
    std::string_view const name{reinterpret_cast<char const*>(text.data()), text.size()};
    Entry entry{number(at + 42, 4),
                number(at + 24, 4),
                number(at + 20, 4),
                static_cast<std::uint32_t>(number(at + 16, 4)),
                static_cast<unsigned>(number(at + 10, 2)),
                static_cast<unsigned>(number(at + 8, 2))};
    std::uint64_t const more = at + 46 + name_bytes, next = more + more_bytes + remark;
    static_cast<void>(piece(more, more_bytes + remark));
    for (std::uint64_t field = more; field + 4 <= more + more_bytes;) {
      std::uint64_t const length = number(field + 2, 2);
      std::uint64_t wide = field + 4;
      if (number(field, 2) == 1)  // zip64: numbers of more than 32 bits, in this order
        for (std::uint64_t* const value : {&entry.bytes, &entry.stored, &entry.begin})
          if (*value == 0xffffffff && wide + 8 <= field + 4 + length) *value = number(wide, 8), wide += 8;
      field += 4 + length;
    }
    constexpr std::string_view ending = ".npy";
    if (!name.ends_with(ending)) return next;
    names_.emplace_back(name.substr(0, name.size() - ending.size()));
    entries_.push_back(entry);
    return next;
  }

  Opened open(std::string_view name) const {
    std::size_t const place = place_of(name);
    if (place == names_.size()) refuse("no array is called " + detail::shown(name));
    Entry const& entry = entries_[place];
    std::string path = file_.path() + ", array " + detail::shown(name);
    if ((entry.flags & 1) != 0) throw FormatError(path, "it is encrypted, and is not read");
    if (entry.method != 0)
      throw FormatError(path, "it is compressed, and is not read: write it by numpy.savez instead of numpy.savez_compressed");
    if (entry.bytes != entry.stored) throw FormatError(path, "it is stored in another number of bytes than it has");
    if (number(entry.begin, 4) != 0x04034b50) throw FormatError(path, "it does not lie where the list says");
    std::uint64_t const begin = entry.begin + 30 + number(entry.begin + 26, 2) + number(entry.begin + 28, 2);
    auto const member = piece(begin, entry.bytes);
    npy::Header header = npy::parse_header(member, member.size(), path);
    return {std::move(path), member, std::move(header), entry.crc};
  }

  MappedFile file_;
  std::vector<std::string> names_;
  std::vector<Entry> entries_;  // in the order of `names`
  std::vector<std::size_t> by_name_;
};

}  // namespace parallax::npz

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/interop/npz-inl.hpp"
#endif
