// Items that an archive gives back: what it holds wrongly is an error with the item's name, and no memory is asked for first.
#include "parallax/core/archive.hpp"

#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "parallax/policy/residual.hpp"
#include "parallax/variable/memory_archive.hpp"

namespace px = parallax;

namespace {

struct Entry {
  std::int64_t key;
  double value;
  friend bool operator==(Entry const&, Entry const&) = default;
};

// What an archive keeps of one text, one list and one residual; then one number of it is damaged.
struct Kept {
  std::string text = "nine char";
  std::vector<Entry> list{{1, 0.5}, {2, 0.25}};

  template <class Items>
  void visit(Items& items) {
    items.text("text", text);
    items.list("list", list);
  }
};

// An archive that reads another one, and gives the number of that name another value.
class Damaged {
 public:
  static constexpr bool reads = true;
  Damaged(px::MemoryArchive const& archive, std::string name, std::uint64_t value)
      : reader_{archive.reader()}, name_{std::move(name)}, value_{value} {}
  void item(px::Item const& item, std::span<std::byte> bytes) {
    reader_.item(item, bytes);
    if (item.name == name_) std::memcpy(bytes.data(), &value_, sizeof value_);
  }

 private:
  px::MemoryArchive::Reader reader_;
  std::string name_;
  std::uint64_t value_;
};

template <class T>
px::Error refusal(px::MemoryArchive const& archive, T& object, std::string const& name, std::uint64_t value) {
  Damaged damaged{archive, name, value};
  px::Items<Damaged> items{damaged, "table"};
  try {
    object.visit(items);
  } catch (px::Error const& error) {
    return error;
  }
  return {px::Errc::aborted, -1, "", "", "nothing was thrown"};
}

}  // namespace

TEST_CASE("a length that an archive has damaged is told with its item", "[core][archive]") {
  px::MemoryArchive archive;
  {
    auto writer = archive.writer();
    px::Items<px::MemoryArchive::Writer> items{writer, "table"};
    Kept{}.visit(items);
    px::Residual<float> left;
    std::vector<float> const gradient(7, 1.0f);
    left.add(gradient);
    left.settled();
    left.visit(items);
  }
  for (std::uint64_t const length :
       {std::uint64_t{10}, std::uint64_t{1} << 40, std::uint64_t{1} << 62, std::numeric_limits<std::uint64_t>::max()}) {
    CAPTURE(length);
    Kept kept;
    auto const text = refusal(archive, kept, "text.length", length), list = refusal(archive, kept, "list.length", length);
    CHECK(text.code() == px::Errc::mismatch);
    CHECK(text.variable() == "table");
    CHECK(text.detail().starts_with("item 'text': it is 9 x 1 of i8, not "));
    CHECK(list.code() == px::Errc::mismatch);
    CHECK(list.detail().starts_with("item 'list': it is 2 x 2 of u64, not "));
    px::Residual<float> left;
    auto const residual = refusal(archive, left, "residual.length", length);
    CHECK(residual.code() == px::Errc::mismatch);
    CHECK(residual.detail().starts_with("item 'residual': it is 7 x 1 of f32, not "));
  }
}

TEST_CASE("long texts and lists come back whole", "[core][archive]") {
  px::MemoryArchive archive;
  Kept kept, restored;
  kept.text.clear(), kept.list.clear();
  for (int i = 0; i < 200'000; ++i) kept.text += static_cast<char>('a' + i % 26), kept.list.push_back({i, 0.5 * i});
  px::Residual<double> left, left_restored;
  std::vector<double> gradient(200'000);
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<double>(i);
  left.add(gradient);
  left.settled();
  auto writer = archive.writer();
  px::Items<px::MemoryArchive::Writer> written{writer, "table"};
  kept.visit(written), left.visit(written);
  auto reader = archive.reader();
  px::Items<px::MemoryArchive::Reader> read{reader, "table"};
  restored.visit(read), left_restored.visit(read);
  CHECK(restored.text == kept.text);
  CHECK(restored.list == kept.list);
  CHECK(std::vector<double>(left_restored.values().begin(), left_restored.values().end()) == gradient);
  Kept none;
  none.text.clear(), none.list.clear();
  none.visit(written);
  restored.visit(read);
  CHECK(restored.text.empty());
  CHECK(restored.list.empty());
}
