// The same of NCCL's, but for ncclCommInitRankConfig, whose configuration is called by its version.
#include "seen.hpp"

std::vector<Listed> SEEN_OF_NCCL() {
  std::vector<Listed> all;
  NUMBER(ncclSuccess)
  NUMBER(ncclUnhandledCudaError)
  NUMBER(ncclSystemError)
  NUMBER(ncclInternalError)
  NUMBER(ncclInvalidArgument)
  NUMBER(ncclInvalidUsage)
  NUMBER(ncclRemoteError)
  NUMBER(ncclInProgress)
  NUMBER(ncclUint8)
  NUMBER(ncclFloat32)
  NUMBER(ncclFloat64)
  NUMBER(ncclSum)
  NUMBER(sizeof(ncclUniqueId))
  FUNCTION(ncclAllGather)
  FUNCTION(ncclAllReduce)
  FUNCTION(ncclCommAbort)
  FUNCTION(ncclCommCount)
  FUNCTION(ncclCommDestroy)
  FUNCTION(ncclCommFinalize)
  FUNCTION(ncclCommGetAsyncError)
  FUNCTION(ncclCommInitRank)
  FUNCTION(ncclCommUserRank)
  FUNCTION(ncclGetErrorString)
  FUNCTION(ncclGetLastError)
  FUNCTION(ncclGetUniqueId)
  FUNCTION(ncclGetVersion)
  FUNCTION(ncclGroupEnd)
  FUNCTION(ncclGroupStart)
  FUNCTION(ncclRecv)
  FUNCTION(ncclReduceScatter)
  FUNCTION(ncclSend)
  return all;
}
