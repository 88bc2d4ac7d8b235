// Source of parallax::compiled: files, checkpoints among them.
#define PARALLAX_INLINE
#include "parallax/detail/checkpoint/background-inl.hpp"
#include "parallax/detail/checkpoint/find_generation-inl.hpp"
#include "parallax/detail/checkpoint/folder-inl.hpp"
#include "parallax/detail/checkpoint/manifest-inl.hpp"
#include "parallax/detail/checkpoint/save-inl.hpp"
#include "parallax/detail/interop/file-inl.hpp"
#include "parallax/detail/interop/merged_trace-inl.hpp"
#include "parallax/detail/interop/npy-inl.hpp"
#include "parallax/detail/interop/npz-inl.hpp"
#include "parallax/detail/interop/safetensors-inl.hpp"
