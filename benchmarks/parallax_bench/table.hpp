// A table that is printed line by line as it is measured, and kept for the page of charts.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "progress.hpp"

namespace bench {

// To stdout, at once.
inline void print_line(std::string const& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

// Only the process that `prints` writes; columns of words stand left, numbers right.
class Table {
 public:
  struct Column {
    std::string title;
    std::size_t width;
    bool words = false;
  };

  Table(std::string title, std::vector<Column> columns, bool prints, Progress& progress)
      : title_{std::move(title)}, columns_{std::move(columns)}, prints_{prints}, progress_{&progress} {
    std::vector<std::string> titles;
    for (auto& column : columns_) {
      column.width = std::max(column.width, column.title.size());
      titles.push_back(column.title);
    }
    if (!prints_) return;
    progress_->clear();
    if (!title_.empty()) print_line("# " + title_);
    print(titles);
  }

  void row(std::vector<std::string> cells) {
    if (prints_) progress_->clear(), print(cells);
    rows_.push_back(std::move(cells));
  }

  std::string const& title() const { return title_; }
  std::vector<Column> const& columns() const { return columns_; }
  std::vector<std::vector<std::string>> const& rows() const { return rows_; }

 private:
  void print(std::vector<std::string> const& cells) const {
    std::string line;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      std::string const gap(columns_[c].width - std::min(columns_[c].width, cells[c].size()), ' ');
      if (c > 0) line += "  ";
      line += columns_[c].words ? cells[c] + gap : gap + cells[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    print_line(line);
  }

  std::string title_;
  std::vector<Column> columns_;
  bool prints_;
  Progress* progress_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace bench
