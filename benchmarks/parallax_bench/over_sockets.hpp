// A method of the library's over sockets, between processes that MPI has started: beside the same method over MPI.
#pragma once

#ifdef PARALLAX_HAS_MPI
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <mpi.h>
#include <netinet/in.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "measured.hpp"
#include "parallax/comm/socket.hpp"

namespace bench {

// The IPv4 address of a network device of this host.
inline std::string address_of_device(std::string const& device) {
  ifaddrs* all = nullptr;
  std::string found;
  if (::getifaddrs(&all) == 0)
    for (ifaddrs const* each = all; each; each = each->ifa_next)
      if (each->ifa_addr && each->ifa_addr->sa_family == AF_INET && device == each->ifa_name) {
        char text[INET_ADDRSTRLEN] = {};
        ::inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in const*>(each->ifa_addr)->sin_addr, text, sizeof text);
        found = text;
      }
  if (all) ::freeifaddrs(all);
  if (found.empty()) throw Refusal{"no address of " + device};
  return found;
}

// What rank 0 says, on every rank.
inline std::string told_by_first(std::string text) {
  int length = static_cast<int>(text.size());
  MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD);
  text.resize(at(length));
  MPI_Bcast(text.data(), length, MPI_CHAR, 0, MPI_COMM_WORLD);
  return text;
}

// A method's training on a SocketCommunicator of its own, whose rank 0 listens at `device` and says by MPI where.
class OverSockets final : public Training {
 public:
  OverSockets(Method const& method, std::string const& device, World const& world, Workload const& work)
      : sockets_{joined(world, device)},
        any_{std::ref(sockets_)},
        training_{method.make(World{any_, nullptr, hosts_, world.options}, work)} {}
  void prepare() override { training_->prepare(); }
  void step() override { training_->step(); }
  px::Traffic traffic() const override { return training_->traffic(); }
  std::vector<std::size_t> chosen() const override { return training_->chosen(); }
  Checked check() override { return training_->check(); }
  void finish() override { training_->finish(); }

 private:
  static px::SocketCommunicator joined(World const& world, std::string const& device) {
    px::SocketOptions options{.rank = world.comm.rank(), .size = world.comm.size(), .key = "of this benchmark"};
    if (options.rank == 0) {
      px::SocketListener listener{address_of_device(device) + ":0"};
      told_by_first(listener.address());
      return {std::move(listener), options};
    }
    options.address = told_by_first({});
    return px::SocketCommunicator{options};
  }

  px::SocketCommunicator sockets_;
  px::AnyCommunicator any_;
  std::vector<int> hosts_;  // each rank is one
  std::unique_ptr<Training> training_;
};

// The same method over sockets.
inline Method over_sockets(Method method, std::string device) {
  Method result = method;
  result.name = "parallax, sockets";
  result.make = [method = std::move(method), device = std::move(device)](World const& world, Workload const& work) {
    return std::unique_ptr<Training>{std::make_unique<OverSockets>(method, device, world, work)};
  };
  return result;
}

}  // namespace bench
#endif
