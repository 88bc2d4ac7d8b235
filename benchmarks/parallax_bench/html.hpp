// Charts as SVG and a page that holds them with their numbers: one file, no scripts.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "table.hpp"
#include "text.hpp"

namespace bench {

inline std::string escaped(std::string_view text) {
  std::string out;
  for (char const c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else if (c == '\'') out += "&#39;";
    else out += c;
  }
  return out;
}

struct Bar {
  std::string label;
  double value, low = 0, high = 0;  // low < high: a whisker
  bool best = false;
};
struct Line {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

namespace detail {

inline std::string coordinate(double value) { return fixed(value, 1); }
inline std::string svg_line(double x1, double y1, double x2, double y2, std::string_view style) {
  return "<line x1='" + coordinate(x1) + "' y1='" + coordinate(y1) + "' x2='" + coordinate(x2) + "' y2='" + coordinate(y2) +
         "' class='" + std::string{style} + "'/>";
}
inline std::string svg_text(double x, double y, std::string_view anchor, std::string const& text, std::string_view more = "") {
  return "<text x='" + coordinate(x) + "' y='" + coordinate(y) + "' text-anchor='" + std::string{anchor} + "' " +
         std::string{more} + ">" + escaped(text) + "</text>";
}
// As wide as a small screen shows in letters that can be read; the title stands above, where it may take several lines.
inline constexpr double svg_width = 560;
inline std::string svg(double height, std::string const& title, std::string const& body) {
  return "<figure><figcaption>" + escaped(title) + "</figcaption><svg viewBox='0 0 " + coordinate(svg_width) + " " +
         coordinate(height) + "' role='img' aria-label='" + escaped(title) + "'>" + body + "</svg></figure>\n";
}
// The text's width, or rather more.
inline double width_of(std::string_view text) {
  double width = 0;
  for (char const c : text) width += std::string_view{"MW@%mw"}.find(c) != text.npos ? 13 : c >= 'A' && c <= 'Z' ? 10 : 8.2;
  return width;
}
// The text, or as much of it as is no wider.
inline std::string cut(std::string const& text, double width) {
  if (width_of(text) <= width) return text;
  std::string some = text;
  while (!some.empty() && width_of(some + "...") > width) some.pop_back();
  return some + "...";
}
// A name of which as much is shown as is no wider; all of it to who points at it.
inline std::string svg_name(double x, double y, std::string_view anchor, std::string const& name, double width) {
  std::string const shown = cut(name, width), text = svg_text(x, y, anchor, shown);
  if (shown == name) return text;
  return text.substr(0, text.size() - std::string_view{"</text>"}.size()) + "<title>" + escaped(name) + "</title></text>";
}

// Of lines: 40 differ in their dashes or marks, for those who do not see colours.
inline constexpr std::string_view colors[] = {"#0b6e99", "#c4491d", "#3f7d20", "#7a4e9e", "#a8821a", "#5c5c5c"};
inline constexpr std::string_view dashes[] = {"", "7 4", "2 3", "10 3 2 3", "14 4"};

// A mark of a line at a point: a disc, a square, a triangle or a diamond, full and then hollow.
inline std::string svg_mark(double x, double y, std::size_t number, std::string const& color) {
  std::string const paint = number / 4 % 2 ? "' fill='#fff' stroke='" + color + "'/>" : "' fill='" + color + "'/>";
  auto const corners = [&](std::vector<std::pair<double, double>> const& at) {
    std::string list;
    for (auto const& [dx, dy] : at) list += coordinate(x + dx) + ',' + coordinate(y + dy) + ' ';
    return "<polygon points='" + list + paint;
  };
  switch (number % 4) {
    case 0: return "<circle cx='" + coordinate(x) + "' cy='" + coordinate(y) + "' r='3.5" + paint;
    case 1: return corners({{-3, -3}, {3, -3}, {3, 3}, {-3, 3}});
    case 2: return corners({{0, -4}, {4, 3}, {-4, 3}});
    default: return corners({{0, -4.5}, {4.5, 0}, {0, 4.5}, {-4.5, 0}});
  }
}

// A step of 1, 2 or 5 times a power of ten that cuts `range` into four to nine.
inline double nice_step(double range) {
  double const power = std::pow(10, std::floor(std::log10(range / 4)));
  for (double const factor : {1.0, 2.0, 5.0})
    if (range / (power * factor) <= 9) return power * factor;
  return 10 * power;
}

// From values to places on an axis. `base` 10 or 2: logarithmic, with ticks at powers of it; 0: not.
struct Axis {
  double low, high, from, to;
  int base;

  double operator()(double value) const {
    if (base) return from + (to - from) * (std::log10(value) - std::log10(low)) / (std::log10(high) - std::log10(low));
    return from + (to - from) * (value - low) / (high - low);
  }
  std::vector<double> ticks() const {
    std::vector<double> all;
    if (base == 2) {
      double const first = std::ceil(std::log2(low) - 1e-9), step = std::max(1.0, std::ceil(std::log2(high / low) / 8));
      for (double power = first; power <= std::log2(high) + 1e-9; power += step) all.push_back(std::exp2(power));
    } else if (base == 10) {
      double const decades = std::log10(high / low);
      double const step = std::max(1.0, std::ceil(decades / 8));
      for (double power = std::ceil(std::log10(low) - 1e-9); power <= std::log10(high) + 1e-9; power += step)
        all.push_back(std::pow(10, power));
      if (all.size() < 3) {  // within a decade or two: 2 and 5 as well
        all.clear();
        for (double power = std::floor(std::log10(low)); power <= std::log10(high); ++power)
          for (double const digit : {1.0, 2.0, 5.0}) {
            double const tick = digit * std::pow(10, power);
            if (tick >= low * 0.999 && tick <= high * 1.001) all.push_back(tick);
          }
      }
      if (all.size() < 3) {  // within much less: as if it were no logarithm
        all.clear();
        double const even = nice_step(high - low);
        for (double tick = std::ceil(low / even) * even; tick <= high; tick += even) all.push_back(tick);
      }
    } else {
      double const step = nice_step(high - low);
      for (double tick = std::ceil(low / step) * step; tick <= high + step / 1000; tick += step) all.push_back(tick);
    }
    return all;
  }
};

inline Axis axis_over(double low, double high, double from, double to, int base) {
  if (!(low < high)) low = base ? low / 2 : std::min(0.0, low), high = base ? high * 2 : std::max(high, 1.0);
  if (!base) low = std::min(low, 0.0), high *= 1.05;
  return {low, high, from, to, base};
}

// A tick: of a logarithm to the base 2 4K, 1M, else 50000, 2e5.
inline std::string tick_text(double value, int base) {
  char const* unit = "";
  if (base == 2)
    for (char const* const larger : {"K", "M", "G"})
      if (value >= 1024) value /= 1024, unit = larger;
  if (base == 2 || (value < 1e5 && (value >= 1e-3 || value <= 0))) return shown(value) + unit;
  int const power = static_cast<int>(std::floor(std::log10(value) + 1e-9));
  return shown(std::round(1e3 * value / std::pow(10, power)) / 1e3) + "e" + std::to_string(power);
}

// The ticks of an axis from left to right, with as many numbers as have room.
inline std::string svg_ticks(Axis const& x, double top, double bottom) {
  std::string body;
  double free = 0;
  for (double const tick : x.ticks()) {
    body += svg_line(x(tick), top, x(tick), bottom, "grid");
    std::string const text = tick_text(tick, x.base);
    double const half = width_of(text) / 2;
    if (x(tick) - half < free) continue;
    body += svg_text(x(tick), bottom + 20, "middle", text);
    free = x(tick) + half + 4;
  }
  return body;
}

}  // namespace detail

// Horizontal bars from zero; the best ones are dark, with their numbers bold.
inline std::string bar_chart(std::string const& title, std::string const& unit, std::vector<Bar> const& bars) {
  using namespace detail;
  double const top = 4, step = 30, right = svg_width - 70;
  double most = 0, widest = 0;
  for (Bar const& bar : bars) most = std::max({most, bar.value, bar.high}), widest = std::max(widest, width_of(bar.label));
  double const left = std::min(widest + 14, 250.0);
  Axis const x = axis_over(0, most > 0 ? most : 1, left, right, 0);
  double const bottom = top + step * real(bars.size());
  std::string body = svg_ticks(x, top, bottom);
  for (std::size_t i = 0; i < bars.size(); ++i) {
    double const y = top + step * real(i);
    Bar const& bar = bars[i];
    body += "<rect x='" + coordinate(left) + "' y='" + coordinate(y + 6) + "' width='" + coordinate(x(bar.value) - left) +
            "' height='18' fill='" + (bar.best ? "#0b6e99" : "#9cc3d5") + "'/>";
    if (bar.low < bar.high) {
      body += svg_line(x(bar.low), y + 15, x(bar.high), y + 15, "whisker");
      body += svg_line(x(bar.low), y + 11, x(bar.low), y + 19, "whisker") +
              svg_line(x(bar.high), y + 11, x(bar.high), y + 19, "whisker");
    }
    body += svg_name(left - 8, y + 19, "end", bar.label, left - 8);
    body += svg_text(std::max(x(bar.value), bar.low < bar.high ? x(bar.high) : 0) + 6, y + 19, "start", shown(bar.value),
                     bar.best ? "class='best'" : "");
  }
  body += svg_line(left, top, left, bottom, "axis") + svg_text((left + right) / 2, bottom + 40, "middle", unit);
  return svg(bottom + 48, title, body);
}

inline std::string line_chart(std::string const& title, std::string const& x_label, std::string const& y_label, int x_base,
                              bool log_y, std::vector<Line> const& lines) {
  using namespace detail;
  double const left = 78, right = svg_width - 28, top = 10, bottom = 290;
  double low_x = std::numeric_limits<double>::infinity(), high_x = -low_x, low_y = low_x, high_y = -low_x;
  auto const drawable = [&](std::pair<double, double> const& p) {
    return (!x_base || p.first > 0) && (!log_y || p.second > 0);
  };
  for (Line const& line : lines)
    for (auto const& point : line.points) {
      if (!drawable(point)) continue;
      low_x = std::min(low_x, point.first), high_x = std::max(high_x, point.first);
      low_y = std::min(low_y, point.second), high_y = std::max(high_y, point.second);
    }
  if (!(low_x <= high_x)) return "";
  if (log_y) low_y /= 1.2, high_y *= 1.2;
  Axis const x = axis_over(low_x, high_x, left, right, x_base), y = axis_over(low_y, high_y, bottom, top, log_y ? 10 : 0);
  // Below: what line is whose, in as many columns as the longest name leaves room for.
  double column = svg_width / 3;
  for (Line const& line : lines) column = std::max(column, 46 + width_of(line.name));
  std::size_t const columns = std::max<std::size_t>(at(svg_width / column + 1e-9), 1);
  std::string body = svg_ticks(x, top, bottom);
  for (double const tick : y.ticks()) {
    body += svg_line(left, y(tick), right, y(tick), "grid");
    body += svg_text(left - 6, y(tick) + 4, "end", tick_text(tick, log_y ? 10 : 0));
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string const color{colors[i % std::size(colors)]};
    std::string const stroke = "fill='none' stroke='" + color + "' stroke-width='2' stroke-dasharray='" +
                               std::string{dashes[i % std::size(dashes)]} + "'";
    std::string path;
    body += "<g class='line'>";
    for (auto const& point : lines[i].points) {
      if (!drawable(point)) continue;
      path += coordinate(x(point.first)) + "," + coordinate(y(point.second)) + " ";
      body += svg_mark(x(point.first), y(point.second), i, color);
    }
    body += "<polyline points='" + path + "' " + stroke + "/></g>";
    double const at_x = 8 + svg_width / real(columns) * real(i % columns), at_y = bottom + 64 + 20 * real(i / columns);
    body += "<g class='key'><polyline points='" + coordinate(at_x) + "," + coordinate(at_y) + " " + coordinate(at_x + 32) +
            "," + coordinate(at_y) + "' " + stroke + "/>" + svg_mark(at_x + 16, at_y, i, color);
    body += svg_name(at_x + 38, at_y + 4, "start", lines[i].name, svg_width / real(columns) - 46) + "</g>";
  }
  body += svg_line(left, bottom, right, bottom, "axis") + svg_line(left, top, left, bottom, "axis");
  body += svg_text((left + right) / 2, bottom + 40, "middle", x_label);
  body += svg_text(0, 0, "middle", y_label, "transform='translate(14," + coordinate((top + bottom) / 2) + ") rotate(-90)'");
  return svg(bottom + 60 + 20 * std::ceil(real(lines.size()) / real(columns)), title, body);
}

// The heading of a table's section: its title up to the first colon or semicolon.
inline std::string heading_of(std::string const& title) {
  return title.substr(0, std::min(title.find(": "), title.find("; ")));
}

// `number`: of the section on its page.
inline std::string page_section(std::vector<std::string> const& charts, Table const& table, std::size_t number) {
  std::string const heading = heading_of(table.title());
  std::string out = "<section id='s" + std::to_string(number) + "'><h2>" + escaped(heading) + "</h2>\n";
  if (heading.size() < table.title().size()) out += "<p>" + escaped(table.title().substr(heading.size() + 2)) + "</p>\n";
  out += "<div class='charts'>\n";
  for (auto const& chart : charts) out += chart;
  out += "</div><div class='wide' tabindex='0'><table><thead><tr>";
  for (auto const& column : table.columns())
    out += std::string{column.words ? "<th class='words'>" : "<th>"} + escaped(column.title) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (auto const& row : table.rows()) {
    out += "<tr>";
    for (std::size_t c = 0; c < row.size(); ++c)
      out += std::string{table.columns()[c].words ? "<td class='words'>" : "<td>"} + escaped(row[c]) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table></div></section>\n";
}

// Opens with the first sentence of `found`, and with what was run, when and on what; then the others, and the contents.
inline std::string page_of(std::string const& title, std::vector<std::string> const& found, std::string const& line,
                           std::string const& facts, std::vector<std::string> const& sections, std::string const& page) {
  std::string contents, others;
  for (std::size_t f = 1; f < found.size(); ++f) others += "<p class='also'>" + escaped(found[f]) + "</p>\n";
  for (std::size_t s = 0; s < sections.size(); ++s)
    contents += "<li><a href='#s" + std::to_string(s + 1) + "'>" + escaped(heading_of(sections[s])) + "</a></li>\n";
  return "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'><title>" + escaped(title) +
         "</title>\n<meta name='viewport' content='width=device-width, initial-scale=1'>\n<style>\n"
         "body{font:15px/1.5 system-ui,sans-serif;color:#222;background:#fff;max-width:72em;margin:2em auto;padding:0 1em;"
         "overflow-wrap:anywhere}\n"
         "h1{font-size:1.5em;margin-bottom:.2em}h2{font-size:1.1em;margin-top:2.5em}\n"
         ".found{font-size:1.1em}.facts,.line{color:#555;font-size:.9em}\n"
         ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,30em),1fr));gap:0 1.5em}\n"
         "figure{max-width:600px;min-width:0;margin:1.2em 0}figcaption{font-size:.95em;font-weight:600;margin-bottom:.4em}\n"
         "svg{width:100%;height:auto;display:block}\n"
         "svg text{font:13px system-ui,sans-serif;fill:#333}svg .best{font-weight:700}\n"
         ".grid{stroke:#e4e4e4}.axis{stroke:#888}.whisker{stroke:#333}\n"
         // A shadow at the edge behind which a table goes on; what covers it moves with the table.
         ".wide{overflow-x:auto;background:linear-gradient(to right,#fff 50%,#fff0) 0 0/3em 100% no-repeat local,"
         "linear-gradient(to left,#fff 50%,#fff0) 100% 0/3em 100% no-repeat local,"
         "linear-gradient(to right,#0003,#0000) 0 0/1em 100% no-repeat scroll,"
         "linear-gradient(to left,#0003,#0000) 100% 0/1em 100% no-repeat "
         "scroll}table{border-collapse:collapse;font-size:.8em;font-variant-numeric:tabular-nums}\n"
         "td,th{padding:.2em .5em;text-align:right;border-bottom:1px solid #eee;white-space:nowrap}\n"
         "th{border-bottom:1px solid #888}.words{text-align:left}\n"
         "td:first-child,th:first-child{position:sticky;left:0;background:#fff}\n</style></head><body>\n<h1>" +
         escaped(title) + "</h1>\n<p class='found'>" + (found.empty() ? "" : escaped(found[0])) +
         "</p>\n<p class='line'><code>" + escaped(line) + "</code></p>\n<p class='facts'>" + escaped(facts) + "</p>\n" +
         others + "<nav><ol>\n" + contents + "</ol></nav>\n" + page + "</body></html>\n";
}

}  // namespace bench
