// The measured rows as CSV and as JSON, with the facts of the machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "parallax/core/fields.hpp"

#ifdef PARALLAX_HAS_MPI
#include <mpi.h>
#endif

#include "html.hpp"
#include "options.hpp"
#include "table.hpp"

namespace bench {

using Cell = std::variant<std::string, double, std::int64_t>;
using Record = std::vector<std::pair<std::string, Cell>>;
using Facts = std::vector<std::pair<std::string, Cell>>;

inline std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#elif defined(__GNUC__)
  return "g++ " __VERSION__;
#else
  return "unknown";
#endif
}

inline std::string mpi_version([[maybe_unused]] bool in_use) {
#ifdef PARALLAX_HAS_MPI
  if (in_use) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    std::string version{text, at(length)};
    version = version.substr(0, version.find('\n'));
    std::replace(version.begin(), version.end(), '\t', ' ');
    while (!version.empty() && (version.back() == ' ' || version.back() == '\0')) version.pop_back();
    return version;
  }
#endif
  return "";
}

inline std::string optimisation() {
#ifdef __OPTIMIZE__
  return "optimised";
#else
  return "not optimised";
#endif
}

inline std::string cpu_name() {
  std::ifstream file{"/proc/cpuinfo"};
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.find(": ") + 2, line.size()));
  return "unknown";
}

inline std::string today() {
  std::time_t const now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

// Collects what a command measures; `write` leaves it where the options say.
class Report {
 public:
  Report(Options const& options, Facts facts) : options_{&options}, facts_{std::move(facts)} {}

  void add(Record record) { records_.push_back(std::move(record)); }
  void section(std::vector<std::string> const& charts, Table const& table) {
    titles_.push_back(table.title());
    page_ += page_section(charts, table, titles_.size());
  }
  // One sentence of what was measured. The page opens with the first.
  void found(std::string sentence) { found_.push_back(std::move(sentence)); }
  void wrong(std::int64_t count) { wrong_ += count; }
  std::int64_t wrong() const { return wrong_; }
  // Where measured steps are traced to, or null where nobody asked for it.
  std::string* traced() { return options_->trace.empty() ? nullptr : &trace_; }

  void write() const {
    if (!options_->csv.empty()) save(options_->csv, csv());
    if (!options_->trace.empty()) save(options_->trace, "[\n" + trace_ + "\n]\n");
    if (!options_->json.empty()) save(options_->json, json());
    auto sentences = found_;
    if (sentences.empty()) sentences.push_back("Nothing was measured.");
    if (wrong_ > 0)
      sentences[0] = std::to_string(wrong_) + " values are wrong, and no figure can be relied upon; " + sentences[0];
    std::string list;
    for (auto const& [name, value] : facts_) list += (list.empty() ? "" : " · ") + name + ": " + plain(value);
    list += " · results: " + std::to_string(records_.size()) + " · wrong values: " + std::to_string(wrong_);
    if (!options_->html.empty())
      save(options_->html, page_of("parallax-bench " + options_->command, sentences, options_->line, list, titles_, page_));
    for (std::string const& sentence : sentences) print_line("# " + sentence);
  }

 private:
  static std::string plain(Cell const& cell) {
    if (auto const* text = std::get_if<std::string>(&cell)) return *text;
    if (auto const* whole = std::get_if<std::int64_t>(&cell)) return std::to_string(*whole);
    return parallax::number_text(std::get<double>(cell));
  }
  static std::string quoted(Cell const& cell) {
    auto const* text = std::get_if<std::string>(&cell);
    if (!text) return plain(cell);
    std::string out = "\"";
    for (char const c : *text) {
      if (c == '"' || c == '\\') (out += '\\') += c;
      else if (static_cast<unsigned char>(c) < 0x20) out += ' ';
      else out += c;
    }
    return out + '"';
  }
  static std::string object(std::vector<std::pair<std::string, Cell>> const& fields) {
    std::string out;
    for (auto const& [name, value] : fields) out += (out.empty() ? "{" : ", ") + quoted(name) + ": " + quoted(value);
    return out.empty() ? "{}" : out + '}';
  }

  std::string csv() const {
    std::vector<std::string> names;
    for (auto const& record : records_)
      for (auto const& [name, value] : record)
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    std::string out;
    for (auto const& name : names) (out += out.empty() ? "" : ",") += name;
    out += '\n';
    for (auto const& record : records_) {
      for (std::size_t n = 0; n < names.size(); ++n) {
        if (n > 0) out += ',';
        for (auto const& [name, value] : record) {
          if (name != names[n]) continue;
          std::string const text = plain(value);
          if (text.find_first_of(",\"\n") == std::string::npos) {
            out += text;
          } else {
            out += '"';
            for (char const c : text) out += c == '"' ? "\"\"" : std::string(1, c);
            out += '"';
          }
        }
      }
      out += '\n';
    }
    return out;
  }
  std::string json() const {
    std::string out = "{\"machine\": " + object(facts_) + ",\n \"command\": " + quoted(options_->line) +
                      ",\n \"wrong\": " + std::to_string(wrong_) + ",\n \"rows\": [";
    for (std::size_t i = 0; i < records_.size(); ++i) out += (i ? ",\n  " : "\n  ") + object(records_[i]);
    return out + "\n]}\n";
  }

  static void save(std::string const& path, std::string const& text) {
    std::ofstream file{path, std::ios::binary};
    file << text;
    file.close();
    if (!file) throw Refusal{path + " cannot be written"};
  }

  std::string trace_;
  Options const* options_;
  Facts facts_;
  std::vector<Record> records_;
  std::string page_;
  std::vector<std::string> found_, titles_;
  std::int64_t wrong_ = 0;
};

}  // namespace bench
