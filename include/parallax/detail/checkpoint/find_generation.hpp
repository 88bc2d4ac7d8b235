// Search for complete generations, and the meaning of one's content here: looked at before anything changes. `Session::restore`
// calls it, and so does the tool parallax-checkpoint.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallax/core/archive.hpp"
#include "parallax/detail/checkpoint/manifest.hpp"
#include "parallax/detail/checkpoint/options.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/variable/registration.hpp"

namespace parallax::inline v0_2::detail {

// Returns a generation's manifest, read and checked. Throws FormatError of a damaged or a foreign one, FileError without one.
Generation open_generation(std::string const& directory, std::int64_t number);

// Local. Throws FormatError if the file of rank `rank`, or of any, has a wrong size, and FileError if it is missing.
void check_shard(Generation const& manifest, std::string const& directory, std::size_t rank);
void check_shards(Generation const& manifest, std::string const& directory);

// Reasons for passing over generations for older ones. Keeps five, and counts the others.
class PassedOver {
 public:
  void add(std::string_view why) {
    if (++count_ <= 5) append(text_, {text_.empty() ? ": " : "; ", why});
  }
  // Throws FormatError, with the kept reasons: the folder has no generation left.
  [[noreturn]] void fail(std::string const& directory) const {
    std::string text = "it has no complete generation of a checkpoint" + text_;
    if (count_ > 5) append(text, {"; and ", count_ - 5, " more"});
    throw FormatError(directory, text);
  }

 private:
  std::string text_;
  int count_ = 0;
};

// Returns the result of `open` for a generation, unless it is one to be passed over: with a missing or damaged file. Then it
// returns nothing, and `why` has the reason. Throws on the error of an unreadable generation, of one newer than this library,
// and of one `wanted` by its number.
template <class Open>
auto unless_passed(bool wanted, std::string& why, Open&& open) -> std::optional<decltype(open())> {
  try {
    return open();
  } catch (NewerFormat const&) {
    throw;
  } catch (FileError const& error) {
    if (wanted || error.code() != ENOENT) throw;
    why = error.what();
  } catch (FormatError const& error) {
    if (wanted) throw;
    why = error.what();
  }
  return std::nullopt;
}

// Returns the manifest of generation `wanted`, or for 0 of the newest complete one in this folder, by names and sizes alone.
// Throws FormatError of damage or if there is none, and FileError if a file cannot be read.
Generation find_generation(std::string const& directory, std::int64_t wanted);

// Returns the mark of a generation's manifest: the checksum in it, all else unread. 0 if there is no manifest, or no whole one.
// Throws FileError if it cannot be read.
std::uint64_t manifest_tag(std::string const& directory, std::int64_t number);

// The meaning of a manifest for the items of this session. Refers to the manifest and the options, which outlive it.
class Meaning {
 public:
  Meaning(Generation const& manifest, RestoreOptions const& options, std::vector<int> const& hosts,
          List<RegistrationPtr> const& variables)
      : manifest_{&manifest}, options_{&options} {
    as_many_ = manifest.shards().size() == hosts.size();
    alike_ = manifest.facts().hosts == hosts;
    for (auto const& known : variables)
      if (!known->gone && made(manifest.signature(there(known->name))) == made(known->signature)) equal_.push_back(known->name);
  }

  // Returns true if there are as many ranks as there were at the save.
  bool as_many() const { return as_many_; }
  // Returns the variable's name in the checkpoint, valid as long as the options and `variable`.
  std::string_view there(std::string_view variable) const {
    for (auto const& [now, then] : options_->names)
      if (now == variable) return then;
    return variable;
  }
  std::string key(Item const& item) const { return key_of(there(item.variable), item.name, item.share == Share::own); }
  // Returns true if the item is given back here; false for one of Share::own or world of other ranks, or of another variable.
  bool applies(Item const& item) const {
    if (item.share == Share::world) return alike_ && made_alike(item.variable);
    if (item.share == Share::own) return as_many_ && made_alike(item.variable);
    return true;
  }
  // Returns true if the variable keeps its content: the restore is partial, and the checkpoint has none of it.
  bool left_out(std::string_view variable) const {
    return options_->partial && !variable.empty() && manifest_->signature(there(variable)).empty();
  }

 private:
  // Returns a signature without its end about first values, which are over; a view of it.
  static std::string_view made(std::string_view signature) { return signature.substr(0, signature.find(", initial ")); }
  bool made_alike(std::string_view variable) const {
    return variable.empty() || std::find(equal_.begin(), equal_.end(), variable) != equal_.end();
  }

  Generation const* manifest_;
  RestoreOptions const* options_;
  bool as_many_ = false, alike_ = false;
  std::vector<std::string> equal_;
};

// The first look at a restore, an archive that changes nothing: throws Error (mismatch) for an item not there in this shape.
class RestoreCheck {
 public:
  static constexpr bool reads = false;

  RestoreCheck(Generation const& manifest, Meaning const& meaning) : manifest_{&manifest}, meaning_{&meaning} {}

  void item(Item const& item, std::span<std::byte const> bytes) {
    if (meaning_->left_out(item.variable)) return;
    std::string const key = meaning_->key(item);
    if (!meaning_->applies(item)) {
      if (item.share != Share::own || item.name.ends_with(".length")) return;
      std::string_view const name = item.variable.empty() ? value_of(item.name) : item.name;
      std::string said = joined({item.variable, item.variable.empty() ? "" : "/", name});
      if (lost.empty() || lost.back() != said) lost.push_back(std::move(said));
      return;
    }
    if (std::string_view{item.name}.starts_with("session.decision")) return;
    safetensors::Tensor tensor;
    std::int64_t rows = -1;
    auto const small = manifest_->small(key, tensor);
    if (small) {
      rows = static_cast<std::int64_t>(tensor.shape[0]);
    } else {
      for (ShardFile const& shard : manifest_->shards()) {
        std::size_t const at = shard.header().find(key);
        if (at == shard.header().size()) continue;
        tensor = shard.header().tensor(at);
        if (item.share == Share::own) rows = shard.rows(at);
        else shard.numbers(at, rows, manifest_->path());
        break;
      }
    }
    if (rows < 0) {
      if (item.list || item.rows == 0) return;  // of none nothing is kept
      // A search may have begun since the save. It ends by the restored files, and need not be there.
      if (std::string_view{item.name}.starts_with("search.")) return;
      auto const none = [&](char const* kind, std::string_view name) {
        throw Error{Errc::mismatch, -1, "restore", item.variable, joined({"the checkpoint has no ", kind, " ", shown(name)})};
      };
      std::string_view const there = meaning_->there(item.variable);
      if (!item.variable.empty() && manifest_->signature(there).empty()) none("variable", there);
      if (item.variable.empty()) none("value", value_of(item.name));
      throw item_error(item.variable, item.name, joined({"the checkpoint has no ", shown(key)}));
    }
    if (item.name == "optimizer.name" && small) {
      std::string_view const there{reinterpret_cast<char const*>(small->data()), small->size()};
      std::string_view const here{reinterpret_cast<char const*>(bytes.data()), bytes.size()};
      if (there != here)
        throw item_error(item.variable, item.name, joined({"it is of ", shown(there), ", not of ", shown(here)}));
    }
    if (item.list || item.name == "optimizer.name.length" || item.share == Share::own) return;
    auto const shape = shape_of(item.type, item.rows, item.width);
    if (tensor.dtype != dtype_of(item.type) || rows != item.rows || tensor.shape[1] != shape[1])
      throw item_error(item.variable, item.name,
                       joined({"it is ", rows, " x ", tensor.shape[1], " of ", safetensors::to_string(tensor.dtype), ", not ",
                               item.rows, " x ", shape[1], " of ", safetensors::to_string(dtype_of(item.type))}));
    if (!small && item.share != Share::part && item.count == item.rows && bytes.size() <= most_alike_bytes)
      alike.push_back(key);
  }

  // Items of ranks' own, not given back: for Restored::lost.
  std::vector<std::string> lost;
  // The small arrays equal on all ranks, by their names in the checkpoint, in the order of their showing.
  std::vector<std::string> alike;

 private:
  // Returns the name of a value in the name of its item, such as value.NAME/ITEM; a view of it.
  static std::string_view value_of(std::string_view name) {
    if (name.starts_with("value.")) name.remove_prefix(6);
    if (name.ends_with(".length")) name.remove_suffix(7);
    return name.substr(0, name.find('/'));
  }

  static constexpr std::size_t most_alike_bytes = std::size_t{1} << 20;

  Generation const* manifest_;
  Meaning const* meaning_;
};

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/checkpoint/find_generation-inl.hpp"
#endif
