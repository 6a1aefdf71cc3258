// What shapes a run's clip, for deciding whether the run can continue from the resume point of another.
#ifndef KINORA_SERVER_WORKER_RUN_FINGERPRINT_H_
#define KINORA_SERVER_WORKER_RUN_FINGERPRINT_H_

#include <string>
#include <vector>

#include "engine/ops/cuda_switches.h"
#include "engine/pipeline/resume_file.h"
#include "kinora/v1/worker.pb.h"
#include "server/worker/model.h"

namespace kinora {

// The worker on which a run is executed.
struct FingerprintedWorker {
  const v1::Ready& ready;              // with the digests of the model's files
  double full_distilled_strength = 1;  // the distilled LoRA's; plans hold fractions of it
  std::string machine{};               // MachineOf
};

// Covers the effective request, which names its inputs by their digests; the model's files; the LoRAs of each stage
// with their strengths; the build, the mesh, the machine, the precision, the decoder's tiles and border. The container,
// previews and everything else in Output are left out, because latents do not depend on them. So is the number of
// threads: the bits on a CPU do not depend on it.
RunFingerprint FingerprintOf(const PreparedRun& run, const FingerprintedWorker& worker);

// Returns what decides about the bits that this process computes, besides the build: on "cpu" the instruction set, on
// "cuda" the device's model and the libraries that are switched off. Fails as DeviceName and ReadCudaSwitches do.
absl::StatusOr<std::string> MachineOf(const std::string& device, const CudaFlags& cuda);
// The machines of all ranks as one text.
std::string JoinMachines(const std::vector<std::string>& of_ranks);

// Returns "the mesh was tokens=2 and is none now" for each part that differs, at most three of them; empty if the
// fingerprints are equal.
std::string WhatChanged(const RunFingerprint& then, const RunFingerprint& now);

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_RUN_FINGERPRINT_H_
