// Bodies of parallax/detail/checkpoint/folder.hpp.
#pragma once

#include "parallax/detail/checkpoint/folder.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE bool take_number(std::string_view& text, std::int64_t& number) {
  std::size_t digits = 0;
  for (number = 0; digits < text.size() && digits < 18 && text[digits] >= '0' && text[digits] <= '9'; ++digits)
    number = 10 * number + (text[digits] - '0');
  text.remove_prefix(digits);
  return digits > 0;
}

PARALLAX_INLINE std::string generation_name(std::int64_t number) {
  std::string digits = std::to_string(number);
  return "generation-" + std::string(digits.size() < 6 ? 6 - digits.size() : 0, '0') + digits;
}

PARALLAX_INLINE std::int64_t generation_number(std::string_view name) {
  std::string_view digits = name.substr(std::min(name.size(), std::string_view{"generation-"}.size()));
  std::int64_t number = 0;
  bool const has_number = take_number(digits, number) && number <= most_generations;
  return has_number && generation_name(number) == name ? number : 0;
}

PARALLAX_INLINE std::string shard_name(int rank) {
  std::string const digits = std::to_string(rank);
  return "shard-" + std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits + ".safetensors";
}

PARALLAX_INLINE std::vector<std::string> names_in(std::string const& folder) {
  struct Opened {
    DIR* folder;
    ~Opened() {
      if (folder) ::closedir(folder);
    }
  } const opened{uninterrupted([&] { return ::opendir(folder.c_str()); })};
  if (!opened.folder) throw FileError(folder, "opendir", errno);
  std::vector<std::string> names;
  for (;;) {
    dirent const* const entry = uninterrupted([&] {
      errno = 0;
      return ::readdir(opened.folder);
    });
    if (!entry && errno != 0) throw FileError(folder, "readdir", errno);
    if (!entry) break;
    std::string_view const name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

PARALLAX_INLINE void make_folder(std::string const& folder) {
  if (folder.empty()) return;
  std::size_t const slash = folder.size() < 2 ? folder.find('/') : folder.find_last_of('/', folder.size() - 2);
  std::string const above = slash == std::string::npos ? "." : slash == 0 ? "/" : folder.substr(0, slash);
  struct ::stat status;
  if (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    make_folder(above);
    if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) throw FileError(folder, "mkdir", errno);
  }
  sync_folder(above);
}

PARALLAX_INLINE void remove_folder(std::string const& folder) noexcept {
  try {
    struct ::stat status;
    if (::lstat(folder.c_str(), &status) == 0 && !S_ISDIR(status.st_mode)) return static_cast<void>(::unlink(folder.c_str()));
    for (std::string const& name : names_in(folder)) ::unlink((folder + "/" + name).c_str());
    ::rmdir(folder.c_str());
  } catch (...) {  // the next save finds and removes it
  }
}

PARALLAX_INLINE std::vector<std::int64_t> numbers_in(std::string const& folder, bool folders) {
  auto const is_folder = [&](std::string const& name) {
    struct ::stat status;
    return ::stat((folder + "/" + name).c_str(), &status) != 0 ? errno != ENOENT : S_ISDIR(status.st_mode);
  };
  std::vector<std::int64_t> numbers;
  try {
    for (std::string const& name : names_in(folder))
      if (std::int64_t const number = generation_number(name); number && (!folders || is_folder(name)))
        numbers.push_back(number);
  } catch (FileError const& error) {
    if (error.code() != ENOENT) throw;
  }
  std::sort(numbers.rbegin(), numbers.rend());
  if (!numbers.empty() && numbers.front() == most_generations)
    throw FormatError(folder, generation_name(most_generations) + " has the highest number of all: no other can follow it");
  return numbers;
}

PARALLAX_INLINE void remove_files(std::string const& folder, std::int64_t number, std::size_t first, std::size_t of) noexcept {
  try {
    std::string const going = folder + "/" + generation_name(number) + std::string{unfinished};
    auto const names = names_in(going);
    for (std::size_t i = first; i < names.size(); i += of) ::unlink((going + "/" + names[i]).c_str());
  } catch (...) {  // the next save finds and removes it
  }
}

PARALLAX_INLINE void remove_unfinished(std::string const& folder) {
  for (std::string const& name : names_in(folder))
    if (name.size() > unfinished.size() && name.ends_with(unfinished) &&
        (name.starts_with(sign_begin) || generation_number(std::string_view{name}.substr(0, name.size() - unfinished.size()))))
      remove_folder(folder + "/" + name);
}

PARALLAX_INLINE std::string this_holder() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  std::string text = joined({"process ", ::getpid(), " on host ", host[0] ? host.data() : "?"});
  for (char const* const name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"})
    if (char const* const job = std::getenv(name); job && *job) {
      append(text, {", job ", job});
      break;
    }
  std::time_t const now = std::time(nullptr);
  std::tm parts{};
  char since[32] = {};
  if (::gmtime_r(&now, &parts) && std::strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S", &parts) > 0)
    append(text, {", since ", since, " UTC"});
  return text;
}

}  // namespace parallax::detail
