// Test only: the memory through which the processes of a simulated NCCL reach each other. It is a file without a name:
// one process makes it, the others open it through that process, and it is gone with the last of them however they end.
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

struct Shared;  // what lies in it

class Segment {
 public:
  // For a new group of ranks; `id` is for the other processes.
  static std::shared_ptr<Segment> Make(nccl::UniqueId* id);
  // Null, and why: nobody made it, or who did is gone.
  static std::shared_ptr<Segment> Open(const nccl::UniqueId& id, std::string* why);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  // Nobody comes any more.
  void Close();

  // The ranks of a communicator meet under a key that all of them work out alike, each bringing two numbers. False:
  // somebody came as `rank` before.
  bool Arrive(uint64_t key, int rank, int64_t first, int64_t second);
  // Whether all `size` have come; then what they brought, which each may ask for once.
  struct Brought {
    int64_t first, second;
  };
  bool Met(uint64_t key, int rank, int size, std::vector<Brought>* brought);

  // Bytes from one rank to another, in order: as many as there is room for, or as have come.
  size_t Write(int from, int to, const char* data, size_t bytes);
  size_t Read(int from, int to, char* data, size_t bytes);

  // What a rank waits for, bit by bit: ranks that must send to it, ranks that must take what it sends; and how often it
  // got further.
  void Waits(int rank, uint32_t to_hear_from, uint32_t to_be_read_by);
  void Moves(int rank);
  // Ranks that wait for each other in a ring, so that none can get further: "0 → 2 → 1 → 0"; "": not so.
  std::string Circle(int rank) const;

  // Wakes all ranks' Sleep. A sleep ends at `number`'s change, or after a while.
  void Wake();
  uint32_t Bell(int rank) const;
  void Sleep(int rank, uint32_t bell);

  // All ranks are told what one found wrong; the first stays.
  void Break(const std::string& why);
  std::string Broken() const;

 private:
  Segment(Shared* shared, int file) : shared_(shared), file_(file) {}

  Shared* const shared_;
  int file_;  // of its maker; -1: closed
};

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_NCCL_SEGMENT_H_
