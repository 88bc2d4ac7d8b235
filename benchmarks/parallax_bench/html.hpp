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
inline std::string svg(double width, double height, std::string const& title, std::string const& body) {
  return "<svg viewBox='0 0 " + coordinate(width) + " " + coordinate(height) + "' role='img' aria-label='" + escaped(title) +
         "'>" + svg_text(12, 20, "start", title, "class='title'") + body + "</svg>\n";
}

// Of lines; those beyond them have the same again, dashed.
inline constexpr std::string_view colors[] = {"#0b6e99", "#c4491d", "#3f7d20", "#7a4e9e", "#a8821a", "#5c5c5c"};

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

// A tick of a logarithm to the base 2: 4K, 1M.
inline std::string tick_text(double value, int base) {
  char const* unit = "";
  if (base == 2)
    for (char const* const larger : {"K", "M", "G"})
      if (value >= 1024) value /= 1024, unit = larger;
  return shown(value) + unit;
}

}  // namespace detail

// Horizontal bars from zero; the best one is dark.
inline std::string bar_chart(std::string const& title, std::string const& unit, std::vector<Bar> const& bars) {
  using namespace detail;
  double const left = 210, right = 700, top = 36, step = 30;
  double most = 0;
  for (Bar const& bar : bars) most = std::max({most, bar.value, bar.high});
  Axis const x = axis_over(0, most > 0 ? most : 1, left, right, 0);
  double const bottom = top + step * real(bars.size());
  std::string body;
  for (double const tick : x.ticks()) {
    body += svg_line(x(tick), top, x(tick), bottom, "grid");
    body += svg_text(x(tick), bottom + 16, "middle", shown(tick));
  }
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
    body += svg_text(left - 8, y + 19, "end", bar.label);
    body += svg_text(std::max(x(bar.value), bar.low < bar.high ? x(bar.high) : 0) + 6, y + 19, "start", shown(bar.value));
  }
  body += svg_line(left, top, left, bottom, "axis") + svg_text((left + right) / 2, bottom + 36, "middle", unit);
  return svg(780, bottom + 48, title, body);
}

inline std::string line_chart(std::string const& title, std::string const& x_label, std::string const& y_label, int x_base,
                              bool log_y, std::vector<Line> const& lines) {
  using namespace detail;
  double const left = 80, right = 560, top = 36, bottom = 316;
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
  std::string body;
  for (double const tick : x.ticks()) {
    body += svg_line(x(tick), top, x(tick), bottom, "grid");
    body += svg_text(x(tick), bottom + 16, "middle", tick_text(tick, x_base));
  }
  for (double const tick : y.ticks()) {
    body += svg_line(left, y(tick), right, y(tick), "grid");
    body += svg_text(left - 6, y(tick) + 4, "end", shown(tick));
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string const color{colors[i % std::size(colors)]};
    std::string const stroke =
        "fill='none' stroke='" + color + "' stroke-width='2'" + (i < std::size(colors) ? "" : " stroke-dasharray='6 4'");
    std::string path;
    for (auto const& point : lines[i].points) {
      if (!drawable(point)) continue;
      path += coordinate(x(point.first)) + "," + coordinate(y(point.second)) + " ";
      body += "<circle cx='" + coordinate(x(point.first)) + "' cy='" + coordinate(y(point.second)) + "' r='3' fill='" + color +
              "'/>";
    }
    body += "<polyline points='" + path + "' " + stroke + "/>";
    double const legend = top + 6 + 20 * real(i);
    body += "<polyline points='" + coordinate(right + 12) + "," + coordinate(legend) + " " + coordinate(right + 34) + "," +
            coordinate(legend) + "' " + stroke + "/>";
    body += svg_text(right + 40, legend + 4, "start", lines[i].name);
  }
  body += svg_line(left, bottom, right, bottom, "axis") + svg_line(left, top, left, bottom, "axis");
  body += svg_text((left + right) / 2, bottom + 36, "middle", x_label);
  body += svg_text(0, 0, "middle", y_label, "transform='translate(18," + coordinate((top + bottom) / 2) + ") rotate(-90)'");
  return svg(780, bottom + 48, title, body);
}

inline std::string page_section(std::vector<std::string> const& charts, Table const& table) {
  std::string out = "<section><h2>" + escaped(table.title()) + "</h2>\n";
  for (auto const& chart : charts) out += chart;
  out += "<table><thead><tr>";
  for (auto const& column : table.columns())
    out += std::string{column.words ? "<th class='words'>" : "<th>"} + escaped(column.title) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (auto const& row : table.rows()) {
    out += "<tr>";
    for (std::size_t c = 0; c < row.size(); ++c)
      out += std::string{table.columns()[c].words ? "<td class='words'>" : "<td>"} + escaped(row[c]) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table></section>\n";
}

inline std::string page_of(std::string const& title, std::string const& facts, std::string const& sections) {
  return "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'><title>" + escaped(title) +
         "</title>\n<meta name='viewport' content='width=device-width'>\n<style>\n"
         "body{font:15px/1.5 system-ui,sans-serif;color:#222;background:#fff;max-width:72em;margin:2em auto;padding:0 1em}\n"
         "h1{font-size:1.5em;margin-bottom:.2em}h2{font-size:1.1em;margin-top:2.5em}\n"
         ".facts{color:#555;font-size:.9em}\n"
         "svg{width:100%;max-width:780px;height:auto;display:block;margin:1em 0}\n"
         "svg text{font:12px system-ui,sans-serif;fill:#333}svg .title{font-size:14px;font-weight:600}\n"
         ".grid{stroke:#e4e4e4}.axis{stroke:#888}.whisker{stroke:#333}\n"
         "table{border-collapse:collapse;font-size:.8em;font-variant-numeric:tabular-nums;display:block;overflow-x:auto}\n"
         "td,th{padding:.2em .5em;text-align:right;border-bottom:1px solid #eee;white-space:nowrap}\n"
         "th{border-bottom:1px solid #888}.words{text-align:left}\n</style></head><body>\n<h1>" +
         escaped(title) + "</h1>\n<p class='facts'>" + escaped(facts) + "</p>\n" + sections + "</body></html>\n";
}

}  // namespace bench
