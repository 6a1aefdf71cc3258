// The text of a body as it arrives. Its whole buffer counts against the budget, and while it grows, the old one too:
// std::string doubles its buffer, and would occupy up to three times as much as has arrived.
#ifndef KINORA_SERVER_GATEWAY_BODY_TEXT_H_
#define KINORA_SERVER_GATEWAY_BODY_TEXT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/gateway/byte_budget.h"

namespace kinora {

class BodyText {
 public:
  static constexpr size_t kStep = 1 << 20;  // by which a long text grows; a short one doubles

  explicit BodyText(ByteBudget& budget) : memory_(budget) {}

  // Returns false, and changes nothing, if that much memory is not left.
  bool Append(std::string_view bytes) {
    if (text_.size() + bytes.size() > text_.capacity() && !Grow(text_.size() + bytes.size())) return false;
    text_.append(bytes);
    return true;
  }
  // Also frees the buffer.
  void Clear() {
    std::string().swap(text_);  // an assignment would keep it
    memory_.Shrink(memory_.taken());
  }

  const std::string& text() const { return text_; }
  int64_t capacity() const { return memory_.taken(); }

 private:
  bool Grow(size_t least) {
    const size_t steps = (least + kStep - 1) / kStep * kStep;
    const size_t capacity = least < kStep ? std::max(least, std::min(2 * text_.capacity(), kStep)) : steps;
    const int64_t old = memory_.taken();
    if (!memory_.Grow(static_cast<int64_t>(capacity))) return false;
    std::string grown;
    grown.reserve(capacity);  // exactly: reserve doubles only a buffer that exists
    grown.append(text_);
    text_ = std::move(grown);
    memory_.Shrink(old);
    return true;
  }

  ByteBudget::Share memory_;
  std::string text_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_GATEWAY_BODY_TEXT_H_
