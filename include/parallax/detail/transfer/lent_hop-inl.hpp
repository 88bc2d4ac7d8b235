// Bodies of parallax/detail/transfer/lent_hop.hpp.
#pragma once

#include "parallax/detail/transfer/lent_hop.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE Error loan_disagreement(int rank, LoanRoom::Loan const& loan, int self, LoanRoom::Loan const& own) {
  return {Errc::mismatch, rank, "reduction in memory", "",
          joined({"rank ", rank, " brought ", loan.bytes / loan.unit, " elements of ", loan.unit, " bytes where ",
                  own.bytes / own.unit, " of ", own.unit, " were expected by rank ", self})};
}

}  // namespace parallax::detail
