// Ways to be refused by what saves and restores, and by the end that waits for a save.
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "guarantee_table.hpp"
#include "parallax/checkpoint/checkpoint.hpp"

namespace parallax_test::guarantee {
namespace {

// A value of the trainer that does something when it is shown to an archive for the n-th time, n from 1.
struct Value {
  std::function<void(int)> when_shown = [](int) {};
  int times = 0;
  double number = 0;

  template <class Items>
  void visit(Items& items) {
    when_shown(++times);
    items.number("number", number);
  }
};
// One that throws at that time on the rank that is bad.
Value odd_value(bool bad, int at) {
  return {[=](int time) {
    if (bad && time == at) throw std::runtime_error{"this value is odd"};
  }};
}

// Calls with all variables of the model, and more.
template <class Call, class... More>
void with_all(AnyModel& m, Call&& call, More&&... more) {
  call(m.hidden, m.bias, m.words, m.exact, m.copy, m.whole, m.naive, more...);
}

enum class Doing { saving, saving_behind, restoring };
constexpr char const* name_of(Doing what) {
  return what == Doing::saving ? "save" : what == Doing::saving_behind ? "save_async" : "restore";
}

// Saves these things, or restores them, as is usual.
template <Doing what, class... Things>
void keep(AnyModel& m, std::string const& folder, Things&&... things) {
  if constexpr (what == Doing::saving) m.session.save(folder, {}, things...);
  else if constexpr (what == Doing::saving_behind) m.session.save_async(folder, {}, things...);
  else m.session.restore(folder, {}, things...);
}
template <Doing what, class... More>
void keep_all(AnyModel& m, std::string const& folder, More&&... more) {
  with_all(
      m, [&](auto&... things) { keep<what>(m, folder, things...); }, more...);
}

// Collective. The folder of a checkpoint of the model, with a value of this name.
std::string saved(AnyModel& m) {
  std::string folder = m.folder + "there";
  Value value;
  if (!m.saved) keep_all<Doing::saving>(m, folder, px::shared_value("value", value));
  m.saved = true;
  return folder;
}
// Where nothing is, and nothing comes to be: of a save that is refused before it makes a folder.
std::string none(AnyModel& m) { return m.folder + "none"; }

// What is refused before anything is read or written.
template <Doing what>
std::vector<Fault> faults_of_all() {
  std::string const operation = name_of(what);
  return {
      {"a folder without a name in " + operation,
       {px::Errc::invalid_argument, operation, "", "the folder has no name"},
       [](AnyModel& m, bool bad, std::uint64_t) { return answer_of([&] { keep_all<what>(m, bad ? "" : none(m)); }); }},
      {"a variable that is left out of " + operation,
       {px::Errc::misuse, operation, "naive", "it is not among the variables of the checkpoint"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         return answer_of([&] {
           if (bad) keep<what>(m, none(m), m.hidden, m.bias, m.words, m.exact, m.copy, m.whole);
           else keep_all<what>(m, none(m));
         });
       }},
      {"a variable twice in " + operation,
       {px::Errc::misuse, operation, "words", "it is named twice"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         return answer_of([&] {
           if (bad) keep_all<what>(m, none(m), m.words);
           else keep_all<what>(m, none(m));
         });
       }},
      {"two values of one name in " + operation,
       {px::Errc::misuse, operation, "odd", "two values have this name"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         Value one, other;
         return answer_of(
             [&] { keep_all<what>(m, none(m), px::shared_value("odd", one), px::own_value(bad ? "odd" : "even", other)); });
       }},
      {"another session's variable in " + operation,
       {px::Errc::misuse, operation, "hidden", "belongs to another session"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         Stranger other;
         return answer_of([&] {
           keep<what>(m, none(m), bad ? other.hidden : m.hidden, m.bias, m.words, m.exact, m.copy, m.whole, m.naive);
         });
       }},
      {operation + " while updates are started",
       {px::Errc::misuse, operation, "bias", "no step completed them", Blamed::first},
       [](AnyModel& m, bool, std::uint64_t) { return answer_of([&] { keep_all<what>(m, none(m)); }); },
       true},
      {"another folder in " + operation,
       {px::Errc::mismatch, operation, "", "has «"},
       [](AnyModel& m, bool bad, std::uint64_t) { return answer_of([&] { keep_all<what>(m, none(m) + (bad ? "1" : "2")); }); }},
      {operation + " where others step",
       {px::Errc::mismatch, "", "", ""},
       [](AnyModel& m, bool bad, std::uint64_t) {
         return answer_of([&] { bad ? keep_all<what>(m, none(m)) : step_both(m); });
       }},
      {"a folder that cannot be in " + operation,
       {px::Errc::file, operation, "", "/dev/null/run", Blamed::anyone},
       [](AnyModel& m, bool, std::uint64_t) { return answer_of([&] { keep_all<what>(m, "/dev/null/run"); }); }},
      {"a value that is odd before " + operation,
       {px::Errc::user_exception, operation, "", "this value is odd"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         std::string const folder = what == Doing::restoring ? saved(m) : none(m);
         Value value = odd_value(bad, 1);
         return answer_of([&] { keep_all<what>(m, folder, px::shared_value("value", value)); });
       }},
  };
}

// With options that are these on the bad rank, and the usual ones on others.
template <Doing what>
Answer saved_with(AnyModel& m, bool bad, px::SaveOptions const& options) {
  px::SaveOptions const chosen = bad ? options : px::SaveOptions{};
  return answer_of([&] {
    with_all(m, [&](auto&... things) {
      if constexpr (what == Doing::saving) m.session.save(none(m), chosen, things...);
      else m.session.save_async(none(m), chosen, things...);
    });
  });
}

template <Doing what>
std::vector<Fault> faults_of_saving() {
  std::string const operation = name_of(what);
  return {
      {"fewer generations than none in " + operation,
       {px::Errc::invalid_argument, operation, "", "at least one generation is kept"},
       [](AnyModel& m, bool bad, std::uint64_t) { return saved_with<what>(m, bad, {.keep = -1}); }},
      {"generations that stay for less than no time in " + operation,
       {px::Errc::invalid_argument, operation, "", "keep_for is a time"},
       [](AnyModel& m, bool bad, std::uint64_t) { return saved_with<what>(m, bad, {.keep_for = -1}); }},
      {"blocks that are too large in " + operation,
       {px::Errc::invalid_argument, operation, "", "block_bytes is from 1 to 1 MiB"},
       [](AnyModel& m, bool bad, std::uint64_t) { return saved_with<what>(m, bad, {.block_bytes = (1 << 20) + 1}); }},
      {"no time for " + operation,
       {px::Errc::invalid_argument, operation, "", "at_most is a time"},
       [](AnyModel& m, bool bad, std::uint64_t) { return saved_with<what>(m, bad, {.at_most = 0}); }},
      {"other options of " + operation,
       {px::Errc::mismatch, operation, "", "{2, 0, 1048576, 600}"},
       [](AnyModel& m, bool bad, std::uint64_t) { return saved_with<what>(m, bad, {.keep = 2}); }},
      {"a value that is odd within " + operation,
       {px::Errc::user_exception, operation, "", "this value is odd"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         Value value = odd_value(bad, 2);
         return answer_of([&] { keep_all<what>(m, m.folder + "odd", px::shared_value("value", value)); });
       }},
  };
}

template <class Change>
Answer restored_with(AnyModel& m, bool bad, Change const& change) {
  std::string const folder = saved(m);
  px::RestoreOptions options;
  if (bad) change(options);
  Value value;
  return answer_of([&] {
    with_all(
        m, [&](auto&... things) { m.session.restore(folder, options, things...); }, px::shared_value("value", value));
  });
}

std::vector<Fault> faults_of_restoring() {
  return {
      {"a generation below all",
       {px::Errc::invalid_argument, "restore", "", "there is no generation -1"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         return restored_with(m, bad, [](auto& options) { options.generation = -1; });
       }},
      {"no time to restore",
       {px::Errc::invalid_argument, "restore", "", "at_most is a time"},
       [](AnyModel& m, bool bad, std::uint64_t) { return restored_with(m, bad, [](auto& options) { options.at_most = 0; }); }},
      {"another generation",
       {px::Errc::mismatch, "restore", "", "generation 7"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         return restored_with(m, bad, [](auto& options) { options.generation = 7; });
       }},
      {"a generation that is not there",
       {px::Errc::file, "restore", "", "generation-000009", Blamed::anyone},
       [](AnyModel& m, bool, std::uint64_t) { return restored_with(m, true, [](auto& options) { options.generation = 9; }); }},
      {"a folder where nothing is",
       {px::Errc::file, "restore", "", "it has no complete generation", Blamed::anyone},
       [](AnyModel& m, bool, std::uint64_t) { return answer_of([&] { keep_all<Doing::restoring>(m, none(m)); }); }},
      {"a checkpoint of another optimizer",
       {px::Errc::mismatch, "visit", "words", "it is of 'LazyAdam', not", Blamed::anyone},
       [](AnyModel& m, bool, std::uint64_t) {
         return restored_with(m, true, [](auto& options) { options.names = {{"words", "copy"}, {"copy", "words"}}; });
       }},
      {"a checkpoint of another shape",
       {px::Errc::mismatch, "visit", "fresh", "not 9 x 3", Blamed::anyone},
       [](AnyModel& m, bool, std::uint64_t) {
         std::string const folder = saved(m);
         px::Variable<px::Sparse, px::Adagrad> fresh{m.session, "fresh", {9, 3}};
         return answer_of([&] {
           with_all(
               m,
               [&](auto&... things) {
                 m.session.restore(folder, {.names = {{"fresh", "words"}}}, things...);
               },
               fresh);
         });
       }},
      {"a variable that the checkpoint has not",
       {px::Errc::mismatch, "restore", "fresh", "the checkpoint has no ", Blamed::anyone},
       [](AnyModel& m, bool, std::uint64_t) {
         std::string const folder = saved(m);
         std::vector<float> memory(4, 1.0f);
         px::Variable<px::Dense> fresh{m.session, "fresh", px::bind(memory)};
         return answer_of([&] { keep_all<Doing::restoring>(m, folder, fresh); });
       }},
      {"a value that the checkpoint has not",
       {px::Errc::mismatch, "restore", "", "the checkpoint has no value 'odd'", Blamed::anyone},
       [](AnyModel& m, bool, std::uint64_t) {
         std::string const folder = saved(m);
         Value value;
         return answer_of([&] { keep_all<Doing::restoring>(m, folder, px::shared_value("odd", value)); });
       }},
      {"a checkpoint that is cut",
       {px::Errc::file, "restore", "", "manifest.safetensors", Blamed::anyone},
       [](AnyModel& m, bool, std::uint64_t) {
         std::string const folder = m.folder + "cut", cut = folder + "/generation-000001/manifest.safetensors";
         keep_all<Doing::saving>(m, folder);
         if (m.rank() == 0) std::filesystem::resize_file(cut, 20);
         return answer_of(
             [&] { with_all(m, [&](auto&... things) { m.session.restore(folder, {.generation = 1}, things...); }); });
       }},
  };
}

// Saves into a new folder of this name, where the bad rank cannot write its file: a folder has its name by then, and stays.
template <Doing what>
void save_badly(AnyModel& m, bool bad, std::string const& name) {
  std::string const folder = m.folder + name, file = folder + "/generation-000001.part/" + px::detail::shard_name(m.rank());
  Value value{[&](int time) {
    if (bad && time == 2) std::filesystem::create_directory(file);
  }};
  keep_all<what>(m, folder, px::shared_value("value", value));
}

// What a rank cannot write, and who tells it.
std::vector<Fault> faults_of_writing() {
  return {
      {"a file that cannot be written",
       {px::Errc::file, "save", "", "generation-000001.part/shard-"},
       [](AnyModel& m, bool bad, std::uint64_t) { return answer_of([&] { save_badly<Doing::saving>(m, bad, "unwritten"); }); }},
      {"a file that cannot be written behind the steps, told by finish",
       {px::Errc::file, "save", "", "generation-000001.part/shard-"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         save_badly<Doing::saving_behind>(m, bad, "of_finish");
         return answer_of([&] { m.session.finish(); });
       }},
      {"a file that cannot be written behind the steps, told by save",
       {px::Errc::file, "save", "", "generation-000001.part/shard-"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         save_badly<Doing::saving_behind>(m, bad, "of_save");
         return answer_of([&] { keep_all<Doing::saving>(m, none(m)); });
       }},
      {"a file that cannot be written behind the steps, told by save_async",
       {px::Errc::file, "save", "", "generation-000001.part/shard-"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         save_badly<Doing::saving_behind>(m, bad, "of_save_async");
         return answer_of([&] { keep_all<Doing::saving_behind>(m, none(m)); });
       }},
      {"a file that cannot be written behind the steps, told by restore",
       {px::Errc::file, "save", "", "generation-000001.part/shard-"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         std::string const folder = saved(m);
         save_badly<Doing::saving_behind>(m, bad, "of_restore");
         Value value;
         return answer_of([&] { keep_all<Doing::restoring>(m, folder, px::shared_value("value", value)); });
       }},
      {"finish while updates are started",
       {px::Errc::misuse, "finish", "bias", "no step completed them", Blamed::first},
       [](AnyModel& m, bool, std::uint64_t) { return answer_of([&] { m.session.finish(); }); },
       true},
  };
}

}  // namespace

std::vector<Fault> faults_of_checkpoints() {
  std::vector<Fault> all;
  for (auto const& more : {faults_of_all<Doing::saving>(), faults_of_all<Doing::saving_behind>(),
                           faults_of_all<Doing::restoring>(), faults_of_saving<Doing::saving>(),
                           faults_of_saving<Doing::saving_behind>(), faults_of_restoring(), faults_of_writing()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace parallax_test::guarantee
