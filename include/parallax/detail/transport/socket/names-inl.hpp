// Bodies of parallax/detail/transport/socket/names.hpp.
#pragma once

#include "parallax/detail/transport/socket/names.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE std::vector<SocketAddress> own_addresses() {
  std::vector<SocketAddress> found;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return found;
  for (int const family : {AF_INET, AF_INET6})
    for (ifaddrs const* one = all; one; one = one->ifa_next) {
      if (!one->ifa_addr || one->ifa_addr->sa_family != family || (one->ifa_flags & IFF_UP) == 0) continue;
      SocketAddress address;
      address.length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      std::memcpy(&address.storage, one->ifa_addr, address.length);
      if (!address.loopback() && !address.of_one_link()) found.push_back(address.at(0));
    }
  ::freeifaddrs(all);
  return found;
}

}  // namespace parallax::detail
