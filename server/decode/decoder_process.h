// Decodes what a client uploaded, in a child of this process that may do nothing else (sandbox.h), and believes nothing
// that it says (ReplyReader).
#ifndef KINORA_SERVER_DECODE_DECODER_PROCESS_H_
#define KINORA_SERVER_DECODE_DECODER_PROCESS_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/decode/decode_protocol.h"

namespace kinora {

struct DecoderOptions {
  std::string binary;  // kinora-decode
  absl::Duration timeout = absl::Seconds(60);
  // Asked every now and then, and after each piece of the answer; what it says unless OK ends the decoding.
  std::function<absl::Status()> go_on{};
};

// Decodes the regular file that `file` is open on, which is the input `id`, and calls the sink as ReplyReader does;
// after an error what the sink was given is of no use. Blocks, for the timeout at most.
//
// InvalidArgument, "input ID: …": the file is damaged, of another type than its own name says, too large; or its
// decoder wanted what it may not have, used up its memory or its time, or answered what it was not asked: what a
// hostile file comes to. Unavailable: the program cannot be started here, there is no seccomp, or the file cannot be
// read.
absl::Status DecodeInput(const DecoderOptions& options, const std::string& id, int file, const DecodeRequest& request,
                         DecodeSink sink);

}  // namespace kinora

#endif  // KINORA_SERVER_DECODE_DECODER_PROCESS_H_
