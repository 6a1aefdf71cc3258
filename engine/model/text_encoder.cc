#include "engine/model/text_encoder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/gemma.h"

namespace kinora {
namespace {

absl::Status CheckFit(const GemmaConfig& gemma, const ConnectorConfig& connector, const Tokenizer* tokenizer) {
  if (tokenizer != nullptr && tokenizer->vocabulary() > gemma.vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer.model has ", tokenizer->vocabulary(),
                                                   " ids, the text encoder embeddings of ", gemma.vocabulary,
                                                   "; take both from the same Gemma checkpoint"));
  }
  if (connector.text_width != gemma.width || connector.text_states != gemma.layers + 1) {
    return absl::InvalidArgumentError(absl::StrCat("the text projection reads ", connector.text_states, " states of ",
                                                   connector.text_width, ", the text encoder gives ", gemma.layers + 1,
                                                   " of ", gemma.width,
                                                   "; text_encoder must name the Gemma this model was trained with"));
  }
  return absl::OkStatus();
}

// Key of an encoded prompt: its ids, the dtype of the computation, the LoRAs in the weights, and the modalities.
std::string CacheKey(const std::vector<int32_t>& ids, const TextContext& context, std::string_view weights) {
  const DType dtype = context.audio.dtype();
  std::string key = absl::StrCat(weights.size(), ":");
  key.append(weights);
  key.push_back(context.video.defined() ? 'b' : 's');
  key.push_back(static_cast<char>(dtype));
  key.append(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(ids[0]));
  return key;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TextEncoder>> TextEncoder::Load(const WeightLoader& weights, const GemmaConfig& gemma,
                                                               const ConnectorConfig& connector,
                                                               std::unique_ptr<const Tokenizer> tokenizer,
                                                               const Options& options) {
  KINORA_RETURN_IF_ERROR(CheckFit(gemma, connector, tokenizer.get()));
  auto encoder = std::unique_ptr<TextEncoder>(new TextEncoder(connector.rows, options));
  encoder->tokenizer_ = std::move(tokenizer);
  KINORA_ASSIGN_OR_RETURN(Gemma loaded,
                          Gemma::Load(weights.Under("text_encoder"), gemma, connector.rows, options.gemma));
  encoder->language_model_ = std::make_unique<Gemma>(std::move(loaded));
  KINORA_ASSIGN_OR_RETURN(encoder->extractor_,
                          FeatureExtractor::Load(weights.Under("text_projection"), connector,
                                                 encoder->language_model_->held_states(), options.modalities));
  const WeightLoader connectors = weights.Under("connectors");
  const WeightLoader picture = options.modalities == Modalities::kSound ? connectors.HeldElsewhere() : connectors;
  KINORA_ASSIGN_OR_RETURN(encoder->video_, Connector::Load(picture.Under("video_embeddings_connector"), connector,
                                                           connector.video, connector.rows, "video"));
  KINORA_ASSIGN_OR_RETURN(encoder->audio_, Connector::Load(connectors.Under("audio_embeddings_connector"), connector,
                                                           connector.audio, connector.rows, "audio"));
  return encoder;
}

absl::StatusOr<std::vector<int32_t>> TextEncoder::Tokenize(std::string_view prompt) const {
  return tokenizer_->Encode(StripWhiteSpace(prompt), rows_);
}

TextContext TextEncoder::AllocContext(Arena& arena, DType dtype, Modalities modalities) const {
  const auto alloc = [&](const Connector& connector) { return arena.Alloc(dtype, {rows_, connector.width()}); };
  return {.video = modalities == Modalities::kBoth ? alloc(video_) : Tensor(), .audio = alloc(audio_)};
}

absl::Status TextEncoder::EncodeTokens(Exec& exec, absl::Span<const std::vector<int32_t>> prompts,
                                       absl::Span<const TextContext> out) const {
  KINORA_CHECK(prompts.size() == out.size() && prompts.size() <= kMaxBatch)
      << prompts.size() << " prompts, " << out.size() << " contexts";
  if (prompts.empty()) return absl::OkStatus();
  std::vector<int32_t> packed;
  std::vector<int64_t> lengths;
  for (const std::vector<int32_t>& ids : prompts) {
    packed.insert(packed.end(), ids.begin(), ids.end());
    lengths.push_back(static_cast<int64_t>(ids.size()));
  }
  const auto tokens = static_cast<int64_t>(packed.size()), count = static_cast<int64_t>(prompts.size());
  ArenaScope temp(exec.arena);
  const Modalities modalities = out[0].video.defined() ? Modalities::kBoth : Modalities::kSound;
  const FeatureExtractor::Features features = extractor_.Alloc(temp, tokens, modalities);
  language_model_->Forward(exec, packed, lengths, features.all, [&](int64_t index, const Tensor& hidden) {
    extractor_.Add(exec, index, hidden, lengths, features);
  });
  if (features.video.defined()) Tap(exec, "features.video", features.video);
  Tap(exec, "features.audio", features.audio);

  const auto run = [&](const Connector& connector, const Tensor& input, Tensor TextContext::*part) {
    ArenaScope scope(exec.arena);
    Tensor contexts = scope.Alloc(exec.dtype, {count * rows_, connector.width()});
    connector.Forward(exec, input, lengths, contexts);
    for (int64_t i = 0; i < count; ++i) exec.ops.stream().Copy(contexts.Rows(i * rows_, (i + 1) * rows_), out[i].*part);
  };
  if (features.video.defined()) run(video_, features.video, &TextContext::video);
  run(audio_, features.audio, &TextContext::audio);
  return exec.ops.stream().Synchronize();
}

absl::Status TextEncoder::Encode(Exec& exec, absl::Span<const std::string> prompts, absl::Span<const TextContext> out,
                                 std::string_view weights) {
  KINORA_CHECK(prompts.size() == out.size()) << prompts.size() << " prompts, " << out.size() << " contexts";
  const auto copy = [&exec](const Tensor& video, const Tensor& audio, const TextContext& to) {
    if (to.video.defined()) exec.ops.stream().Copy(video, to.video);
    exec.ops.stream().Copy(audio, to.audio);
  };
  std::vector<std::string> keys;
  std::vector<size_t> fresh, repeated;  // prompts to compute; prompts equal to an earlier one of this call
  std::vector<std::vector<int32_t>> fresh_ids;
  std::vector<TextContext> fresh_out;
  for (size_t i = 0; i < prompts.size(); ++i) {
    KINORA_ASSIGN_OR_RETURN(std::vector<int32_t> ids, Tokenize(prompts[i]));
    std::string key = CacheKey(ids, out[i], weights);
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) {
      repeated.push_back(i);
    } else if (const ContextCache::Entry* entry = cache_.Find(key)) {
      copy(entry->video, entry->audio, out[i]);
    } else {
      fresh.push_back(i);
      fresh_ids.push_back(std::move(ids));
      fresh_out.push_back(out[i]);
    }
    keys.push_back(std::move(key));
  }
  KINORA_RETURN_IF_ERROR(EncodeTokens(exec, fresh_ids, fresh_out));
  for (size_t i : repeated) {
    const TextContext& source = out[std::find(keys.begin(), keys.end(), keys[i]) - keys.begin()];
    copy(source.video, source.audio, out[i]);
  }
  for (size_t i : fresh) {
    cache_.Put(exec, keys[i], out[i].video, out[i].audio);
    KINORA_RETURN_IF_ERROR(exec.ops.stream().Synchronize());  // the next Put may free this copy's destination
  }
  return exec.ops.stream().Synchronize();
}

}  // namespace kinora
