#include <functional>
#include <numeric>

#include "engine/base/strings.h"
#include "engine/config/config_fields.h"
#include "engine/config/config_reader.h"

namespace kinora {
namespace {

class Validation {
 public:
  void Require(bool condition, std::string problem) {
    if (!condition) problems_.Add(std::move(problem));
  }
  void Equal(std::string_view a_name, int64_t a, std::string_view b_name, int64_t b) {
    Require(a == b, Cat(a_name, " is ", a, ", but ", b_name, " is ", b));
  }
  absl::Status status() const { return problems_.status(); }

 private:
  ConfigProblems problems_;
};

void CheckTransformer(const TransformerConfig& t, Validation* v) {
  for (const auto& [name, m, axes] : {std::tuple("video", &t.video, 3u), std::tuple("audio", &t.audio, 1u)}) {
    v->Require(m->head_dim % 8 == 0, Cat("transformer ", name, " head size ", m->head_dim, " is not a multiple of 8"));
    v->Require(m->width() <= kMaxWidth, Cat("transformer ", name, " width ", m->width(), " exceeds ", kMaxWidth));
    v->Require(m->max_positions.size() == axes, Cat("transformer ", name, " needs ", axes, " maximal positions"));
    if (t.caption_projection)
      v->Equal(Cat("transformer ", name, " cross-attention width"), m->context_width, "its width", m->width());
  }
  // Cross-modal attention uses the audio's heads and the video's rotary width.
  v->Equal("num_attention_heads", t.video.heads, "audio_num_attention_heads", t.audio.heads);
  v->Require(t.rope_layout == RopeLayout::kSplit,
             "rope_type interleaved is not supported; every released checkpoint is split");
}

void CheckConnector(const ModelConfig& model, Validation* v) {
  const ConnectorConfig& c = model.connector;
  const TransformerConfig& t = model.transformer;
  for (const auto& [name, stream, modality] :
       {std::tuple("video", &c.video, &t.video), std::tuple("audio", &c.audio, &t.audio)}) {
    v->Require(stream->head_dim % 8 == 0,
               Cat(name, " connector head size ", stream->head_dim, " is not a multiple of 8"));
    v->Require(stream->registers > 0 && c.rows % std::max<int64_t>(1, stream->registers) == 0,
               Cat(name, " connector: ", stream->registers, " registers do not divide the prompt's ", c.rows,
                   " rows (model_max_length of tokenizer_config.json, at most ", kMaxPromptRows, ")"));
    const std::string width = Cat(name, " connector width");
    if (!c.per_modality_projections) v->Equal(width, stream->width(), "the text encoder's width", c.text_width);
    if (t.caption_projection) {
      v->Equal(width, stream->width(), "transformer caption_channels", t.caption_channels);
    } else {
      v->Equal(width, stream->width(), Cat("transformer ", name, " cross-attention width"), modality->context_width);
    }
  }
  if (model.duration_head.has_value()) {
    v->Equal("duration_head cross_attention_dim", model.duration_head->video_width, "video connector width",
             c.video.width());
    v->Equal("duration_head audio_cross_attention_dim", model.duration_head->audio_width, "audio connector width",
             c.audio.width());
  }
  v->Require(c.rows > 0 && c.rows <= kMaxPromptRows, Cat("prompt rows ", c.rows, " out of bounds"));
  v->Require(c.rope_layout == RopeLayout::kSplit, "connector rope_type interleaved is not supported");
  v->Require(c.text_states > 0 && c.text_states <= kMaxLayers,
             Cat("text encoder states ", c.text_states, " out of bounds"));
  if (model.gemma) {
    v->Equal("the text encoder's hidden_size", model.gemma->width, "the width the connectors expect", c.text_width);
    v->Equal("the text encoder's layers + 1", model.gemma->layers + 1, "the states the projection takes",
             c.text_states);
  }
}

void CheckVideoDecoder(const ModelConfig& model, Validation* v) {
  const VideoDecoderConfig& d = model.video_decoder;
  if (d.absent()) return;  // no video VAE, for example only a transformer
  v->Equal("the video VAE's latent channels", d.latent_channels, "transformer in_channels",
           model.transformer.video.in_channels);
  v->Equal("the video VAE's latent channels", d.latent_channels, "transformer out_channels",
           model.transformer.video.out_channels);
  for (const VideoDecoderBlock& block : d.blocks) {
    const int64_t product = block.stride[0] * block.stride[1] * block.stride[2];
    v->Require(block.out_channels > 0, "a block of the video decoder without channels");
    if (!block.residual) continue;
    // The residual repeats its in / product channels to fill the output channels.
    v->Require(block.in_channels % product == 0 && block.out_channels % (block.in_channels / product) == 0,
               Cat("video decoder: a residual of ", block.in_channels, " channels cannot fill ", block.out_channels));
  }
  const std::vector<double>& positions = model.transformer.video.max_positions;
  for (size_t axis = 1; axis < positions.size(); ++axis) {  // the largest picture is twice as large
    v->Require(2 * positions[axis] >= static_cast<double>(d.space_factor()),
               Cat("transformer: a maximal position of ", positions[axis],
                   " pixels leaves no room for a latent cell of ", d.space_factor()));
  }
  v->Require(d.time_factor() <= 64 && d.space_factor() <= 256, "the video VAE's compression is out of bounds");
  v->Equal("the video VAE's rgb channels", d.out_channels, "what a picture has", 3);
}

void CheckGenerator(std::string_view name, const GeneratorConfig& g, int64_t mel_bins, Validation* v) {
  const size_t stages = g.upsample_rates.size();
  v->Require(g.upsample_kernels.size() == stages, Cat(name, ": upsample rates and kernel sizes differ in number"));
  v->Require(g.resblock_dilations.size() == g.resblock_kernels.size(),
             Cat(name, ": resblock kernels and dilations differ in number"));
  v->Require(stages < 20 && g.hidden_channels % (int64_t{1} << std::min<size_t>(stages, 20)) == 0,
             Cat(name, ": ", g.hidden_channels, " channels cannot be halved ", stages, " times"));
  for (size_t i = 0; i < std::min(stages, g.upsample_kernels.size()); ++i) {
    v->Require(
        g.upsample_kernels[i] >= g.upsample_rates[i] && (g.upsample_kernels[i] - g.upsample_rates[i]) % 2 == 0,
        Cat(name, ": kernel size ", g.upsample_kernels[i], " does not suit upsampling by ", g.upsample_rates[i]));
  }
  for (int64_t kernel : g.resblock_kernels) v->Require(kernel % 2 == 1, Cat(name, ": even resblock kernel ", kernel));
  v->Require(g.activation != GeneratorConfig::Activation::kSnake,
             Cat(name, ": activation snake is not supported, only snakebeta"));
  v->Equal(Cat(name, " input channels"), g.in_channels, "output channels · mel bins", g.out_channels * mel_bins);
}

int64_t Product(const std::vector<int64_t>& values) {
  int64_t product = 1;
  for (int64_t value : values) product = std::min<int64_t>(product * value, int64_t{1} << 40);
  return product;
}

void CheckAudio(const ModelConfig& model, Validation* v) {
  const AudioDecoderConfig& a = model.audio_decoder;
  v->Equal("levels of the audio VAE", static_cast<int64_t>(a.multipliers.size()),
           "what the latent's fixed factor of 4 needs", 3);
  if (a.multipliers.size() != 3) return;
  v->Require(a.mel_bins % a.factor() == 0, Cat("audio VAE: ", a.mel_bins, " mel bins do not divide by ", a.factor()));
  v->Equal("the audio VAE's packed latent channels", a.packed_width(), "transformer audio_in_channels",
           model.transformer.audio.in_channels);
  v->Equal("the audio VAE's packed latent channels", a.packed_width(), "transformer audio_out_channels",
           model.transformer.audio.out_channels);
  v->Equal("sound channels", a.out_channels, "what stereo has", 2);
  v->Require(a.causal, "audio VAE: only causal timing is supported");
  const VocoderConfig& voc = model.vocoder;
  CheckGenerator("vocoder", voc.base, a.mel_bins, v);
  v->Equal("the vocoder's output channels", voc.base.out_channels, "the audio VAE's", a.out_channels);
  // One mel row represents hop_length samples at the VAE's rate. The generator must produce the same duration.
  v->Equal("vocoder upsampling · the audio VAE's sample rate", Product(voc.base.upsample_rates) * a.sample_rate,
           "hop length · the vocoder's rate", a.hop_length * voc.base_rate);
  if (!voc.extension) return;
  const BandwidthExtensionConfig& e = *voc.extension;
  CheckGenerator("bandwidth extension", e.generator, e.mel_bins, v);
  v->Require(voc.output_rate % voc.base_rate == 0,
             Cat("bandwidth extension: ", voc.output_rate, " Hz is no multiple of ", voc.base_rate));
  v->Equal("bandwidth extension upsampling", Product(e.generator.upsample_rates), "its hop length · rate ratio",
           e.hop_length * (voc.output_rate / voc.base_rate));
  v->Require(e.n_fft >= e.hop_length && e.n_fft % 2 == 0,
             "bandwidth extension: n_fft must be even and at least the hop length");
}

// Compares tensors with the shapes that the configuration implies.
class ShapeCheck {
 public:
  explicit ShapeCheck(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  void Expect(std::string_view component, std::string_view key, const Shape& shape) {
    if (!checkpoint_.HasComponent(component)) return;
    const std::string name = Cat(component, ".", key);
    const Checkpoint::Entry* entry = checkpoint_.Find(name);
    if (entry == nullptr)
      return problems_.Add(Cat(name, ": missing; the configuration needs it as ", shape.ToString()));
    if (entry->tensor->shape == shape) return;
    problems_.Add(Cat(checkpoint_.Describe(name), ": shape ", entry->tensor->shape.ToString(),
                      ", the configuration needs ", shape.ToString()));
  }
  void ExpectNone(std::string_view component, std::string_view prefix, std::string_view because) {
    const std::string name = Cat(component, ".", prefix);
    const auto it = checkpoint_.tensors().lower_bound(name);
    if (it == checkpoint_.tensors().end() || !it->first.starts_with(name)) return;
    problems_.Add(Cat(checkpoint_.Describe(it->first), ": the configuration has ", because));
  }
  absl::Status status() const { return problems_.status(); }

 private:
  const Checkpoint& checkpoint_;
  ConfigProblems problems_;
};

void ExpectTransformer(const TransformerConfig& t, ShapeCheck* check) {
  check->Expect("transformer", "patchify_proj.weight", {t.video.width(), t.video.in_channels});
  check->Expect("transformer", "audio_patchify_proj.weight", {t.audio.width(), t.audio.in_channels});
  check->Expect("transformer", "proj_out.weight", {t.video.out_channels, t.video.width()});
  const std::string last = Cat("transformer_blocks.", t.layers - 1, ".");
  check->Expect("transformer", Cat(last, "scale_shift_table"), {t.modulation_rows(), t.video.width()});
  check->Expect("transformer", Cat(last, "attn2.to_k.weight"), {t.video.width(), t.video.context_width});
  check->Expect("transformer", Cat(last, "audio_to_video_attn.to_k.weight"), {t.audio.width(), t.audio.width()});
  if (t.gated_attention)
    check->Expect("transformer", Cat(last, "attn1.to_gate_logits.weight"), {t.video.heads, t.video.width()});
  if (!t.gated_attention) check->ExpectNone("transformer", Cat(last, "attn1.to_gate_logits."), "no gated attention");
  check->ExpectNone("transformer", Cat("transformer_blocks.", t.layers, "."), Cat(t.layers, " layers"));
  if (t.caption_projection) {
    check->Expect("transformer", "caption_projection.linear_1.weight", {t.video.width(), t.caption_channels});
  } else {
    check->ExpectNone("transformer", "caption_projection.", "no caption projection in the transformer");
  }
}

void ExpectText(const ModelConfig& model, ShapeCheck* check) {
  const ConnectorConfig& c = model.connector;
  for (const auto& [name, stream] : {std::pair("video", &c.video), std::pair("audio", &c.audio)}) {
    const std::string connector = Cat(name, "_embeddings_connector.");
    check->Expect("connectors", Cat(connector, "learnable_registers"), {stream->registers, stream->width()});
    check->ExpectNone("connectors", Cat(connector, "transformer_1d_blocks.", stream->layers, "."),
                      Cat(stream->layers, " layers"));
    if (c.per_modality_projections) {
      check->Expect("text_projection", Cat(name, "_aggregate_embed.weight"), {stream->width(), c.flat_width()});
    }
  }
  if (!c.per_modality_projections)
    check->Expect("text_projection", "aggregate_embed.weight", {c.text_width, c.flat_width()});
  if (!model.gemma) return;
  const GemmaConfig& g = *model.gemma;
  check->Expect("text_encoder", "embed_tokens.weight", {g.vocabulary, g.width});
  const bool local = g.sliding[g.layers - 1];
  check->Expect("text_encoder", Cat("layers.", g.layers - 1, ".self_attn.k_proj.weight"),
                {g.kv_heads_of(local) * g.head_dim_of(local), g.width});
  check->ExpectNone("text_encoder", Cat("layers.", g.layers, "."), Cat(g.layers, " layers"));
}

void ExpectDecoders(const ModelConfig& model, ShapeCheck* check) {
  const VideoDecoderConfig& v = model.video_decoder;
  if (v.absent()) {
    check->ExpectNone("vae", "decoder.", "no section for the video VAE");
  } else if (v.diffusion) {
    const DiffusionDecoderConfig& d = *v.diffusion;
    check->Expect("vae", "decoder.conv_in.weight", {d.stages.front().width, v.latent_channels});
    check->Expect("vae", "decoder.conv_out.weight", {v.conv_out_channels(), d.denoiser.width});
    check->ExpectNone("vae", Cat("decoder.diff_blocks.", d.denoiser.blocks, "."), Cat(d.denoiser.blocks, " blocks"));
  } else {
    check->Expect("vae", "decoder.conv_in.conv.weight", {v.first_width(), v.latent_channels, 3, 3, 3});
    check->Expect("vae", "decoder.conv_out.conv.weight", {v.conv_out_channels(), v.last_width(), 3, 3, 3});
    check->ExpectNone("vae", Cat("decoder.up_blocks.", v.blocks.size(), "."), Cat(v.blocks.size(), " decoder blocks"));
  }
  const AudioDecoderConfig& a = model.audio_decoder;
  check->Expect("audio_vae", "decoder.conv_in.conv.weight",
                {a.channels * a.multipliers.back(), a.latent_channels, 3, 3});
  check->Expect("audio_vae", "decoder.conv_out.conv.weight",
                {a.out_channels, a.channels * a.multipliers.front(), 3, 3});
  check->Expect("audio_vae", "per_channel_statistics.std-of-means", {a.packed_width()});
  const auto generator = [&](std::string_view prefix, const GeneratorConfig& g) {
    check->Expect("vocoder", Cat(prefix, "conv_pre.weight"), {g.hidden_channels, g.in_channels, 7});
    check->Expect("vocoder", Cat(prefix, "conv_post.weight"),
                  {g.out_channels, g.hidden_channels >> g.upsample_rates.size(), 7});
    check->ExpectNone("vocoder", Cat(prefix, "ups.", g.upsample_rates.size(), "."),
                      Cat(g.upsample_rates.size(), " upsampling stages"));
  };
  generator(model.vocoder.extension ? "vocoder." : "", model.vocoder.base);
  if (!model.vocoder.extension) return;
  const BandwidthExtensionConfig& e = *model.vocoder.extension;
  generator("bwe_generator.", e.generator);
  check->Expect("vocoder", "mel_stft.stft_fn.forward_basis", {e.n_fft + 2, 1, e.n_fft});
  check->Expect("vocoder", "mel_stft.mel_basis", {e.mel_bins, e.n_fft / 2 + 1});
}

}  // namespace

absl::Status ValidateModelConfig(const ModelConfig& config) {
  Validation validation;
  CheckTransformer(config.transformer, &validation);
  CheckConnector(config, &validation);
  CheckVideoDecoder(config, &validation);
  CheckAudio(config, &validation);
  return validation.status();
}

absl::Status CheckConfigAgainstTensors(const ModelConfig& config, const Checkpoint& checkpoint) {
  ShapeCheck check(checkpoint);
  ExpectTransformer(config.transformer, &check);
  ExpectText(config, &check);
  ExpectDecoders(config, &check);
  return check.status();
}

}  // namespace kinora
