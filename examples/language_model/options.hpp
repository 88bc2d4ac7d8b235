// The command line of the language model.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "../terminal.hpp"
#include "shape.hpp"

namespace lm {

inline constexpr std::array<std::string_view, 7> policies{
    "hybrid", "all_reduce", "parameter_server", "tf1_parameter_server", "all_gather", "auto", "async"};
// The ones that are compared, in the order in which they are trained.
inline constexpr std::array<std::string_view, 5> compared{"hybrid", "all_reduce", "tf1_parameter_server", "parameter_server",
                                                          "all_gather"};

struct Options {
  std::vector<std::string> texts;  // empty: the default text
  int ranks = 4;                   // threads, where no launcher has others
  std::string policy = "compare";  // five of them, one after another; or one; or async: every rank at its own pace
  std::int64_t staleness = 3;      // of async: so many batches a rank may be ahead of what it has seen of others; -1: any
  bool by_staleness = false;       // of async: a gradient is divided by its age, in updates
  std::int64_t backup = 0;         // of async: of each clock, the batches of so many ranks that come last are dropped; 0: none
  int servers = 0;                 // of async: so many ranks keep all parameters and train on nothing; 0: each keeps a share
  ModelShape shape;
  Index streams = 16;        // B, per rank
  Index steps = 10;          // T, of truncated back-propagation
  std::int64_t batches = 0;  // training steps; 0: one pass over the text
  int checkpoints = 6;
  double learning_rate = 0.3;
  double clip = 10;  // of the norm of the LSTM's gradients
  std::uint64_t seed = 1;
  std::string save;             // the folder of checkpoints; empty: none
  std::int64_t save_every = 0;  // steps; 0: a minute
  bool resume = false;          // from the newest checkpoint
  bool smoke = false;           // a few tiny steps, for tests
  bool help = false;
};

// Returns what --help prints, in lines of so many columns, with the defaults.
inline std::string help(std::size_t columns) {
  Options const usual;
  auto const whole = [](auto number) { return std::to_string(number); };
  auto const real = [](double number) {
    std::string text = std::to_string(number);
    text.erase(text.find_last_not_of('0') + 1);
    return text.ends_with('.') ? text + '0' : text;
  };
  struct Entry {
    std::string option, says, usually = {};
  };
  Entry const entries[] = {
      {"--text FILE...", "what is trained on", "the King James Bible of Debian's package bible-kjv"},
      {"--ranks N", "ranks as threads, where no launcher has others", whole(usual.ranks)},
      {"--policy NAME",
       "one of hybrid, all_reduce, parameter_server, tf1_parameter_server, all_gather, auto and async, or compare: all but the "
       "last "
       "two, one after another. --mode is the same",
       usual.policy},
      {"--vocabulary V", "words that have a row in both tables", whole(usual.shape.vocabulary)},
      {"--embedding E", "elements of a word's row", whole(usual.shape.embedding)},
      {"--cell H", "cells of the LSTM", whole(usual.shape.cell)},
      {"--projection P", "what the LSTM hands on", whole(usual.shape.projection)},
      {"--samples S", "words that a step's loss is taken over, beside the right ones", whole(usual.shape.samples)},
      {"--batch B", "streams of words of a rank in a step", whole(usual.streams)},
      {"--steps T", "words of each stream in a step", whole(usual.steps)},
      {"--batches K", "steps of training; 0: one pass over the text", whole(usual.batches)},
      {"--checkpoints C", "how often the held-out perplexity is told", whole(usual.checkpoints)},
      {"--rate R", "learning rate", real(usual.learning_rate)},
      {"--clip NORM", "the most that the norm of the LSTM's gradients may be", real(usual.clip)},
      {"--seed N", "of random numbers", whole(usual.seed)},
      {"--staleness S", "with async: so many batches a rank may be ahead of what it has seen of others, or any",
       whole(usual.staleness)},
      {"--backup B", "with async, in the place of --staleness: ranks go in step, without the B that come last",
       whole(usual.backup)},
      {"--by-staleness", "with async: what was computed from old parameters counts the less, the older they are"},
      {"--servers N", "with async: so many ranks keep all parameters, and train on nothing", whole(usual.servers)},
      {"--save FOLDER",
       "with hybrid: keeps three checkpoints there, one now and then, one at the end, and one when SIGTERM or SIGINT stops it"},
      {"--save-every STEPS", "how often; 0: each minute", whole(usual.save_every)},
      {"--resume",
       "goes on from the newest checkpoint, if there is one, with any number of ranks; the other options as they were, but for "
       "--batches, which counts those before as well"},
      {"--smoke", "a few tiny steps, for tests"},
      {"--help", "prints this; --px-help tells how to start it on several hosts"},
  };
  std::size_t const indent = columns < 60 ? 4 : 22;
  std::string text =
      example::wrapped(
          "language_model [options]: trains the language model of the Parallax paper in small, under several policies "
          "in turn, and compares what they sent and learnt.",
          columns, 0, 0) +
      "\n";
  for (Entry const& entry : entries) {
    std::string line = "  " + entry.option;
    if (indent < 22) line += "\n" + std::string(indent, ' ');
    else line.resize(indent, ' ');
    std::string const says = entry.says + (entry.usually.empty() ? "" : " (" + entry.usually + ")");
    text += line + example::wrapped(says, columns, indent, indent) + "\n";
  }
  return text +
         example::wrapped(
             "The paper's size: --vocabulary 793470 --embedding 512 --cell 2048 --projection 512 --samples 8192 --batch 128 "
             "--steps 20",
             columns, 0, 0) +
         "\n";
}

namespace detail {

template <class T>
T number(std::string_view option, std::string_view text) {
  T value{};
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool const in_range = value >= T{0} && value <= std::numeric_limits<T>::max();  // which "nan" and "inf" are not
  if (error != std::errc{} || end != text.data() + text.size() || !in_range)
    throw std::invalid_argument{std::string{option} + " wants a number, not '" + std::string{text} + "'"};
  return value;
}

inline std::string policy(std::string_view name) {
  if (name == "compare" || std::ranges::count(policies, name) == 1) return std::string{name};
  throw std::invalid_argument{"no such policy: " + std::string{name}};
}

inline std::int64_t staleness(std::string_view text) { return text == "any" ? -1 : number<std::int64_t>("--staleness", text); }

inline std::string folder(std::string_view name) {
  if (name.empty() || name.starts_with("--")) throw std::invalid_argument{"--save wants the name of a folder"};
  return std::string{name};
}

// What is said of checkpoints must be of one training, and of one folder.
inline void check_saving(Options const& options) {
  if (options.save.empty()) {
    if (options.resume) throw std::invalid_argument{"--resume goes on from what --save FOLDER has saved: name the folder"};
    if (options.save_every > 0) throw std::invalid_argument{"--save-every says how often --save FOLDER saves: name the folder"};
  } else if (options.policy != "hybrid") {
    throw std::invalid_argument{"--save is for --policy hybrid, not for " + options.policy};
  }
}

}  // namespace detail

// Throws std::invalid_argument with a sentence about the first argument that is wrong.
// The mode of a file of hosts is the policy of who names none.
inline Options parse(std::vector<std::string_view> const& arguments) {
  Options options;
  if (char const* const mode = std::getenv("PARALLAX_MODE")) options.policy = detail::policy(mode);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string_view const name = arguments[i];
    auto const next = [&] {
      if (i + 1 == arguments.size()) throw std::invalid_argument{std::string{name} + " wants a value"};
      return arguments[++i];
    };
    auto const read = [&](auto& value) { value = detail::number<std::remove_reference_t<decltype(value)>>(name, next()); };
    if (name == "--text") {
      options.texts.emplace_back(next());
      while (i + 1 < arguments.size() && !arguments[i + 1].starts_with("--")) options.texts.emplace_back(next());
    } else if (name == "--ranks") read(options.ranks);
    else if (name == "--policy" || name == "--mode") options.policy = detail::policy(next());
    else if (name == "--staleness") options.staleness = detail::staleness(next());
    else if (name == "--by-staleness") options.by_staleness = true;
    else if (name == "--backup") read(options.backup);
    else if (name == "--servers") read(options.servers);
    else if (name == "--vocabulary") read(options.shape.vocabulary);
    else if (name == "--embedding") read(options.shape.embedding);
    else if (name == "--cell") read(options.shape.cell);
    else if (name == "--projection") read(options.shape.projection);
    else if (name == "--samples") read(options.shape.samples);
    else if (name == "--batch") read(options.streams);
    else if (name == "--steps") read(options.steps);
    else if (name == "--batches") read(options.batches);
    else if (name == "--checkpoints") read(options.checkpoints);
    else if (name == "--rate") read(options.learning_rate);
    else if (name == "--clip") read(options.clip);
    else if (name == "--seed") read(options.seed);
    else if (name == "--save") options.save = detail::folder(next());
    else if (name == "--save-every") read(options.save_every);
    else if (name == "--resume") options.resume = true;
    else if (name == "--smoke") options.smoke = true;
    else if (name == "--help" || name == "-h") options.help = true;
    else throw std::invalid_argument{"no such option: " + std::string{name}};
  }
  detail::check_saving(options);
  if (options.servers > 0 && options.policy != "async") throw std::invalid_argument{"--servers is for --policy async"};
  return options;
}

}  // namespace lm
