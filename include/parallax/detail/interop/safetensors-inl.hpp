// Bodies of parallax/interop/safetensors.hpp.
#pragma once

#include "parallax/interop/safetensors.hpp"

namespace parallax::inline v0_2::safetensors::detail {

PARALLAX_INLINE void append_quoted(std::string& out, std::string_view text) {
  constexpr std::string_view escapes = "\"\\bfnrt", meant = "\"\\\b\f\n\r\t";
  out.push_back('"');
  for (char const c : text) {
    if (std::size_t const which = meant.find(c); which != meant.npos) out.append(1, '\\').append(1, escapes[which]);
    else if (static_cast<unsigned char>(c) < 0x20)
      out.append("\\u00").append(1, c < 0x10 ? '0' : '1').append(1, "0123456789abcdef"[c & 15]);
    else out.push_back(c);
  }
  out.push_back('"');
}

}  // namespace parallax::safetensors::detail

namespace parallax::inline v0_2::safetensors {

PARALLAX_INLINE Layout::Layout(std::vector<Spec> tensors, Metadata const& metadata, std::string_view path)
    : tensors_{std::move(tensors)}, begins_(tensors_.size()), sizes_(tensors_.size()) {
  auto const refuse = [&](std::string const& detail) { throw FormatError(path, detail); };
  auto const check_unique = [&](std::string_view what, std::size_t count, auto const& name) {
    for (std::size_t i = 0; i < count; ++i)
      if (detail::end_of_utf8(name(i)) < name(i).size()) refuse(std::string{what} + detail::shown(name(i)) + " is no UTF-8");
    std::vector<std::uint32_t> const order = detail::in_order(count, name);
    if (std::size_t const i = detail::twin(order, name); i < count)
      refuse("two: " + std::string{what} + detail::shown(name(order[i])));
  };
  check_unique("tensor ", tensors_.size(), [&](std::size_t i) { return std::string_view{tensors_[i].name}; });
  check_unique("metadata ", metadata.size(), [&](std::size_t i) { return std::string_view{metadata[i].first}; });
  if (metadata.size() > most_metadata) refuse(std::to_string(metadata.size()) + " entries of metadata are more than are read");

  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    std::string const subject = "tensor " + detail::shown(tensors_[i].name);
    if (tensors_[i].name == "__metadata__") refuse(subject + ": the name is the format's own");
    if (tensors_[i].shape.size() > most_dimensions)
      refuse(subject + ": more than " + std::to_string(most_dimensions) + " dimensions");
    sizes_[i] = 1;
    for (std::uint64_t const length : tensors_[i].shape)
      if (!detail::multiply(sizes_[i], length, sizes_[i])) refuse(subject + ": the shape has more than 2^64 - 1 elements");
    if (!detail::multiply(sizes_[i], size_of(tensors_[i].dtype), sizes_[i]))
      refuse(subject + ": it has more than 2^64 - 1 bytes");
  }
  std::vector<std::size_t> order;
  for (std::size_t size = 8; size > 0; size /= 2)
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      if (size_of(tensors_[i].dtype) == size) order.push_back(i);

  std::string text(8, '\0');
  text.push_back('{');
  auto const next = [&](std::string_view name) {
    if (text.back() != '{') text.push_back(',');
    detail::append_quoted(text, name);
    text.push_back(':');
  };
  if (!metadata.empty()) {
    next("__metadata__");
    text.push_back('{');
    for (auto const& [key, value] : metadata) {
      if (detail::end_of_utf8(value) < value.size()) refuse("metadata " + detail::shown(key) + ": the value is no UTF-8");
      next(key);
      detail::append_quoted(text, value);
    }
    text.push_back('}');
  }
  for (std::size_t const i : order) {
    next(tensors_[i].name);
    text.append("{\"dtype\":\"").append(to_string(tensors_[i].dtype)).append("\",\"shape\":[");
    for (std::uint64_t const length : tensors_[i].shape)
      text.append(text.back() == '[' ? "" : ",").append(std::to_string(length));
    begins_[i] = data_;
    if (__builtin_add_overflow(data_, sizes_[i], &data_)) refuse("the tensors have more than 2^64 - 1 bytes");
    append(text, {"],\"data_offsets\":[", begins_[i], ",", data_, "]}"});
  }
  text.push_back('}');
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() - 8 > most_header_bytes)
    refuse(joined({"the header would have ", text.size() - 8, " bytes, a reader takes ", most_header_bytes}));
  if (data_ > ~std::uint64_t{0} - text.size()) refuse("the file would have more than 2^64 - 1 bytes");
  for (int i = 0; i < 8; ++i) text[static_cast<std::size_t>(i)] = static_cast<char>((text.size() - 8) >> (8 * i) & 0xff);
  header_ = std::move(text);
}

}  // namespace parallax::safetensors
