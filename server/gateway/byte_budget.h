// Bytes that all requests share, so that many of them cannot exhaust the memory or the disk.
#ifndef KINORA_SERVER_GATEWAY_BYTE_BUDGET_H_
#define KINORA_SERVER_GATEWAY_BYTE_BUDGET_H_

#include <atomic>
#include <cstdint>

namespace kinora {

class ByteBudget {  // thread-safe
 public:
  explicit ByteBudget(int64_t bytes) : bytes_(bytes), left_(bytes) {}

  int64_t bytes() const { return bytes_; }
  int64_t left() const { return left_; }            // less for the moment in which a share is refused
  int64_t taken() const { return bytes_ - left_; }  // by all shares

  // A part of the budget that grows and shrinks, and returns to it with its destruction.
  class Share {
   public:
    explicit Share(ByteBudget& budget) : budget_(budget) {}
    ~Share() { budget_.left_ += taken_; }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // Returns false, and takes nothing, if that much is not left.
    bool Grow(int64_t bytes) {
      if ((budget_.left_ -= bytes) < 0) {
        budget_.left_ += bytes;
        return false;
      }
      taken_ += bytes;
      return true;
    }
    void Shrink(int64_t bytes) {
      taken_ -= bytes;
      budget_.left_ += bytes;
    }
    int64_t taken() const { return taken_; }

   private:
    ByteBudget& budget_;
    int64_t taken_ = 0;
  };

 private:
  const int64_t bytes_;
  std::atomic<int64_t> left_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_BYTE_BUDGET_H_
