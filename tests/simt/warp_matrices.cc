// Matrices spread over a warp. Compiled without -fsanitize=thread.
#include "tests/simt/warp_matrices.h"

#include <bit>
#include <cstring>

namespace kinora::simt {
namespace {

// The bf16 value in the lower (0) or upper (1) half of a word.
float Half(unsigned word, int half) { return std::bit_cast<float>(half == 0 ? word << 16 : word & 0xffff0000u); }

}  // namespace

void Multiply(const std::array<TileProduct*, 32>& lanes) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const TileProduct& from = *lanes[lane];
    const int row = lane / 4, column = lane % 4 * 2;
    for (int half = 0; half < 2; ++half) {
      for (int part = 0; part < 4; ++part) {
        a[row + part % 2 * 8][column + part / 2 * 8 + half] = Half(from.a[part], half);
      }
      for (int part = 0; part < 2; ++part) b[column + part * 8 + half][row] = Half(from.b[part], half);
    }
  }
  for (int row = 0; row < 16; ++row) {
    float sums[8];
    const auto sum = [&](int column) -> float& { return lanes[row % 8 * 4 + column / 2]->d[row / 8 * 2 + column % 2]; };
    for (int column = 0; column < 8; ++column) sums[column] = sum(column);
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column) sums[column] += a[row][k] * b[k][column];
    }
    for (int column = 0; column < 8; ++column) sum(column) = sums[column];
  }
}

void Distribute(const std::array<MatrixLoad*, 32>& lanes, bool transposed) {
  uint16_t rows[32][8];
  for (int lane = 0; lane < 32; ++lane) std::memcpy(rows[lane], &lanes[lane]->row, sizeof rows[lane]);
  for (int lane = 0; lane < 32; ++lane) {
    const int row = lane / 4, column = lane % 4 * 2;
    for (int matrix = 0; matrix < 4; ++matrix) {
      const uint16_t(*const from)[8] = rows + matrix * 8;
      const unsigned low = transposed ? from[column][row] : from[row][column];
      const unsigned high = transposed ? from[column + 1][row] : from[row][column + 1];
      lanes[lane]->to[matrix] = low | high << 16;
    }
  }
}

}  // namespace kinora::simt
