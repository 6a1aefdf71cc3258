// Decodes a client's upload in a child of this process that may do nothing else (sandbox.h), and trusts nothing in its
// answer (ReplyReader).
#ifndef KINORA_SERVER_DECODE_DECODER_PROCESS_H_
#define KINORA_SERVER_DECODE_DECODER_PROCESS_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/decode/decode_protocol.h"

namespace kinora {

struct DecoderOptions {
  std::string binary;  // path of kinora-decode
  absl::Duration timeout = absl::Seconds(60);
  Clock& clock = Clock::Steady();  // measures the timeout
  // Called regularly, and after each piece of the answer. An error that it returns ends the decoding.
  std::function<absl::Status()> go_on{};
};

// Decodes the regular file that the descriptor `file` is open on, which is the input `id`, and calls the sink as
// ReplyReader does. After an error the caller must discard what the sink received. Blocks for at most the timeout. The
// kernel kills the decoder when the calling thread ends (sandbox.h).
//
// InvalidArgument, "input ID: …": the file is damaged, too large or not of request.kind; or the decoder tried a
// forbidden operation, used up its memory or its time, or sent an unexpected answer, as a hostile file may cause.
// Unavailable: the program cannot be started here, there is no seccomp, the file cannot be read, or this process was
// stopped (SIGSTOP, a suspended machine) while the time ran out. Others: from go_on.
absl::Status DecodeInput(const DecoderOptions& options, const std::string& id, int file, const DecodeRequest& request,
                         DecodeSink sink);

}  // namespace kinora

#endif  // KINORA_SERVER_DECODE_DECODER_PROCESS_H_
