// The CPU as a device whose memory the host cannot access. Proves that code above a backend only uses copies.
//
// One file in memory is mapped twice. Tensors hold addresses of a mapping without access rights. Only the backend
// translates them to the open mapping, inside an op, copy or collective. The protection therefore holds at any time on
// every thread: a host that reads or writes device memory dies at that instruction, even while an op runs. Results
// equal the CPU's bit for bit. Fresh memory holds NaN.
#ifndef KINORA_TESTS_TESTING_WALLED_BACKEND_H_
#define KINORA_TESTS_TESTING_WALLED_BACKEND_H_

#include <memory>
#include <string_view>

#include "engine/ops/backend.h"

namespace kinora {

absl::StatusOr<std::unique_ptr<Backend>> OpenWalledBackend(const BackendOptions& options);
// Traits of the backend "walled", whose memory is separate from the host's.
BackendTraits WalledTraits(const BackendOptions& options);

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_WALLED_BACKEND_H_
