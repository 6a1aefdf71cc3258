// The CPU as a device whose memory the host cannot touch: what proves that everything above a backend keeps to copies.
//
// One file in memory is mapped twice. Tensors carry addresses of the mapping without any access rights, and the backend
// alone, inside an op, a copy or a collective, shifts them to the open mapping, which nobody else knows. So the wall
// never opens, whatever thread runs: a host that reads or writes device memory dies at that instruction, also while an
// op runs. Results are the CPU's to the bit. Fresh memory holds NaN.
#ifndef KINORA_TESTS_TESTING_WALLED_BACKEND_H_
#define KINORA_TESTS_TESTING_WALLED_BACKEND_H_

#include <memory>
#include <string_view>

#include "engine/ops/backend.h"

namespace kinora {

absl::StatusOr<std::unique_ptr<Backend>> OpenWalledBackend(const BackendOptions& options);
// "walled", with memory apart from the host's.
BackendTraits WalledTraits(const BackendOptions& options);

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_WALLED_BACKEND_H_
