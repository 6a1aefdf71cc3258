#include "tests/bench/onednn_product.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "oneapi/dnnl/dnnl.hpp"

namespace kinora {

struct OneDnnProduct::Parts {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::memory x, w, out;
  dnnl::matmul product;

  // Returns f32 values of a small repeating ramp, in the layout of `desc`.
  dnnl::memory Filled(const dnnl::memory::desc& desc, const dnnl::memory::dims& dims) {
    dnnl::memory plain({dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab}, engine);
    float* values = static_cast<float*>(plain.get_data_handle());
    for (int64_t i = 0; i < dims[0] * dims[1]; ++i) values[i] = static_cast<float>(i % 31) / 16.0f - 1.0f;
    dnnl::memory result(desc, engine);
    dnnl::reorder(plain, result).execute(stream, plain, result);
    stream.wait();
    return result;
  }
};

OneDnnProduct::OneDnnProduct(int64_t rows, int64_t in, int64_t out, bool bf16) : parts_(std::make_unique<Parts>()) {
  using Memory = dnnl::memory;
  const auto type = bf16 ? Memory::data_type::bf16 : Memory::data_type::f32;
  const auto any = Memory::format_tag::any, plain = Memory::format_tag::ab;
  const dnnl::matmul::desc desc({{rows, in}, type, plain}, {{in, out}, type, any}, {{rows, out}, type, plain});
  const dnnl::matmul::primitive_desc primitive(desc, parts_->engine);
  parts_->x = parts_->Filled(primitive.src_desc(), {rows, in});
  parts_->w = parts_->Filled(primitive.weights_desc(), {in, out});
  parts_->out = Memory(primitive.dst_desc(), parts_->engine);
  parts_->product = dnnl::matmul(primitive);
}

OneDnnProduct::~OneDnnProduct() = default;

void OneDnnProduct::Run() {
  parts_->product.execute(parts_->stream,
                          {{DNNL_ARG_SRC, parts_->x}, {DNNL_ARG_WEIGHTS, parts_->w}, {DNNL_ARG_DST, parts_->out}});
  parts_->stream.wait();
}

}  // namespace kinora
