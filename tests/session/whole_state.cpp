// Two of the models, compiled once for threads and for MPI.
#include "whole_state.hpp"

namespace parallax_test::whole_state {

template std::string complaint_of<3>(px::AnyCommunicator&, bool);
template std::string complaint_of<13>(px::AnyCommunicator&, bool);

}  // namespace parallax_test::whole_state
