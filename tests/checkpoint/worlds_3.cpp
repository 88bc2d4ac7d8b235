#include "worlds.hpp"

template parallax_test::worlds::Found parallax_test::worlds::work<3>(Task const&);
