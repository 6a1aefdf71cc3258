// Tensors as kernels see them: device addresses and numbers. kernels/ depends on nothing in the engine.
#ifndef KINORA_KERNELS_ROWS_H_
#define KINORA_KERNELS_ROWS_H_

#include <cstdint>

namespace kinora::kernels {

enum class Type : uint8_t { kF32, kBf16 };

// Rows of equal width, possibly with gaps between them.
struct Rows {
  void* data = nullptr;
  int64_t stride = 0;  // elements from one row to the next
  Type type = Type::kF32;
};

// A matrix [sequences·rows, count·width] in blocks: row s·rows + i, columns b·width … are row i of block s·count + b.
struct Blocks {
  void* data = nullptr;
  int64_t stride = 0;  // elements from one row of a block to the next; blocks follow each other without gaps
  int64_t rows = 0, width = 0, count = 0;
};

// Whether rows of `width` elements consist of whole vectors of eight elements, aligned to 16 bytes. True for absent
// rows.
inline bool Vectors(const Rows& rows, int64_t width) {
  return rows.data == nullptr ||
         (width % 8 == 0 && rows.stride % 8 == 0 && reinterpret_cast<uintptr_t>(rows.data) % 16 == 0);
}

// A table of scales, shifts and gates, all float32 and contiguous. Row i of a modulated tensor uses table row row[i mod
// tokens] (0 if `row` is null); its slot s is base[s] (0 if null) + table[row][s].
struct Modulation {
  const float* table = nullptr;  // [rows, slots, width]
  const float* base = nullptr;   // [slots, width]
  const int32_t* row = nullptr;  // [tokens]
  int64_t tokens = 1, slots = 0;
};

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_ROWS_H_
