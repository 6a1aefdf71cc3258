// Test only: the memory through which the processes of a simulated NCCL communicate: an unnamed file that one process
// creates and the others open through that process. The system frees it when the last process ends.
#ifndef KINORA_TESTS_SIMT_NCCL_SEGMENT_H_
#define KINORA_TESTS_SIMT_NCCL_SEGMENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/processes/nccl_abi.h"

namespace kinora::simt {

inline constexpr int kMostRanks = 16;

struct Shared;  // contents of the segment

class Segment {
 public:
  // Creates the segment of a new group of ranks. The other processes need `id` to open it.
  static std::shared_ptr<Segment> Make(nccl::UniqueId* id);
  // Returns null and sets `why` if no such segment exists or its creator has ended.
  static std::shared_ptr<Segment> Open(const nccl::UniqueId& id, std::string* why);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  // No more processes can open the segment.
  void Close();

  // The ranks of a communicator meet under a key that each computes, and each provides two numbers. Returns false if
  // `rank` has already arrived.
  bool Arrive(uint64_t key, int rank, int64_t first, int64_t second);
  // Met returns whether all `size` ranks have arrived, and then their numbers. Each rank may receive them once.
  struct Brought {
    int64_t first, second;
  };
  bool Met(uint64_t key, int rank, int size, std::vector<Brought>* brought);

  // Transfer bytes in order, as many as there is space for or have arrived. Return their number.
  size_t Write(int from, int to, const char* data, size_t bytes);
  size_t Read(int from, int to, char* data, size_t bytes);

  // Waits publishes, as bit masks, which ranks must send to `rank` and which must read what it sends. Moves counts its
  // progress.
  void Waits(int rank, uint32_t to_hear_from, uint32_t to_be_read_by);
  void Moves(int rank);
  // Returns a cycle of ranks that wait for each other, "0 -> 2 -> 1 -> 0", or "" if `rank` is in none.
  std::string Circle(int rank) const;

  // Wake ends the Sleep of all ranks. Sleep returns when the rank's bell differs from `bell`, or after a timeout.
  void Wake();
  uint32_t Bell(int rank) const;
  void Sleep(int rank, uint32_t bell);

  // Reports an error to all ranks. The first error is kept.
  void Break(const std::string& why);
  std::string Broken() const;

 private:
  Segment(Shared* shared, int file) : shared_(shared), file_(file) {}

  Shared* const shared_;
  int file_;  // the creator's file descriptor; -1: closed
};

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_NCCL_SEGMENT_H_
