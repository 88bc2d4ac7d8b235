// One of several libraries of a program, each with a parallax of its own: what the program calls of it. It includes none of them.
#pragma once

#include <string>

// Its functions return the sentence of an error; only train_by_mpi lets it through.
struct Part {
  // Trains a model on two threads, and returns a line: the version, the default deadline in seconds, and a number of the parameters.
  std::string (*train)();
  // Joins the ranks at an address by sockets, or as the environment says where it is empty, and trains; `apart`: without rounds. Returns
  // the sentence of its end.
  std::string (*join)(int rank, std::string const& address, bool apart);
  // Trains on all ranks of MPI, which this part starts where nobody has, and ends then; before its session finishes, the part `inside`
  // does so as well. Returns a line of each. `fault`: rank 1 "throws" or "exits" out of the innermost session.
  std::string (*train_by_mpi)(Part const* inside, std::string const& fault);
  // A watch for the signals that schedulers send: begins one, tells if a signal has come, ends it.
  void* (*watch)();
  bool (*seen)(void*);
  void (*unwatch)(void*);
  // Takes a folder's lock, and keeps it until the process ends.
  std::string (*lock)(std::string const& folder);
  // Makes a communicator that a child which is forked then must not use, and returns what the child is told.
  std::string (*fork_and_use)();
};
