// A block handles a tile of 4 x 4 x 8 queries of one head. Each of its four warps holds 2 x 4 x 4 of them as two halves
// of 2 x 2 x 4: the 16 rows of a matrix. The union of the windows of a tile's queries is cut into cells of 2 x 2 x 4
// keys: the 16 rows of the other matrix. All warps load cells into shared memory, several at a time while the previous
// ones are used; a warp skips the cells that neither of its halves sees. Cells follow each other first in time, so that
// what a lane sees in height and width holds for several cells. Tiles and cells lie at fixed places of the grid, so the
// order of a query's sums does not depend on the box.
//
// Queries of a tile that lie outside the box see no key and are not written.
#include "kernels/device/device.h"
#include "kernels/device/reduce.h"
#include "kernels/device/vector_io.h"
#include "kernels/device/windows.h"
#include "kernels/neighbourhood_tiles.h"

namespace kinora::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kTileTime = 4, kTileHeight = 4, kTileWidth = 8;
constexpr int kCellTime = 2, kCellHeight = 2, kCellWidth = 4;  // of keys, and of queries in a half
constexpr int kCellKeys = kCellTime * kCellHeight * kCellWidth;
constexpr int kHeadWidth = 64;
constexpr int kPieces = kHeadWidth / kVector;  // of 16 bytes, in a row
constexpr int kRowBytes = kPieces * 16;
constexpr int kCellBytes = kCellKeys * kRowBytes;  // of keys, followed by as many of values
constexpr int kStageCells = 6;
constexpr int kStageBytes = kStageCells * 2 * kCellBytes;
constexpr int kWarpQueries = 2 * kCellKeys;
constexpr int kTilesInTime = 8;  // that follow each other: they share most of their keys in the second-level cache
constexpr float kSlack = 8.0f;   // weights may reach 2^8 before earlier sums are scaled down to a new maximum
static_assert(kCellKeys * kPieces == kThreads, "a thread moves the same piece of every cell");

__device__ __forceinline__ int Lane() { return static_cast<int>(threadIdx.x % kWarpLanes); }
__device__ __forceinline__ int Warp() { return static_cast<int>(threadIdx.x / kWarpLanes); }

struct Span {
  int begin, end;
};
__device__ __forceinline__ Span KeysOf(const Axis& axis, int query, int queries) {
  const int begin = axis.Start(query);
  return {begin, axis.Start(query + queries - 1) + axis.window};
}
__device__ __forceinline__ int Cells(const Span& keys, int each) { return (keys.end - keys.begin + each - 1) / each; }

// A tile of queries, and the keys that they see. In shared memory, since registers are scarce.
struct Tile {
  int time, height, width;  // the first query
  Span times, heights, widths;
  int cells;
};

// Returns the tile of a block. A run of kTilesInTime tiles follow each other in time, then come those beside them.
__device__ Tile FindTile(const NeighbourhoodAttention& a, const Axes& axes, int index) {
  const int first_time = a.first.time / kTileTime;
  const int tiles_in_time = (a.first.time + a.queries.time - 1) / kTileTime - first_time + 1;
  const int first_height = a.first.height / kTileHeight, first_width = a.first.width / kTileWidth;
  const int tiles_in_height = (a.first.height + a.queries.height - 1) / kTileHeight - first_height + 1;
  const int tiles_in_width = (a.first.width + a.queries.width - 1) / kTileWidth - first_width + 1;
  const int each = kTilesInTime * tiles_in_height * tiles_in_width;
  const int in_time = min(kTilesInTime, tiles_in_time - index / each * kTilesInTime), place = index % each / in_time;
  Tile t;
  t.time = (first_time + index / each * kTilesInTime + index % each % in_time) * kTileTime;
  t.height = (first_height + place / tiles_in_width) * kTileHeight;
  t.width = (first_width + place % tiles_in_width) * kTileWidth;
  t.times = KeysOf(axes.time, t.time, kTileTime);
  t.heights = KeysOf(axes.height, t.height, kTileHeight);
  t.widths = KeysOf(axes.width, t.width, kTileWidth);
  t.cells = Cells(t.times, kCellTime) * Cells(t.heights, kCellHeight) * Cells(t.widths, kCellWidth);
  return t;
}

// The offset of a piece in rows of kRowBytes, whose pieces are permuted so that eight rows' pieces of one column lie in
// different banks.
__device__ __forceinline__ int PieceAt(int row, int piece) { return row * kRowBytes + ((piece ^ row % 8) << 4); }

// A stage: in shared memory the keys and values of kStageCells cells, and where the cells begin.
struct StageAt {
  unsigned char* cells;
  int4* first_keys;  // time, height, width; whether time begins anew
};

// Loads the cells of a tile one after another: a thread's piece of one key in each. Keys outside the union are zero.
struct Loader {
  int time, height, width;  // the first key of the next cell
  int end;                  // of the thread's keys in time, at this height and width
  uint32_t row;             // of the thread's key

  static __device__ __forceinline__ int Key() { return static_cast<int>(threadIdx.x / kPieces); }
  static __device__ __forceinline__ int KeyTime() { return Key() / (kCellHeight * kCellWidth); }

  __device__ __forceinline__ Loader(const NeighbourhoodAttention& a, const Tile& t)
      : height(t.heights.begin), width(t.widths.begin) {
    BeginColumn(a, t);
  }
  __device__ __forceinline__ void BeginColumn(const NeighbourhoodAttention& a, const Tile& t) {
    const int h = height + Key() / kCellWidth % kCellHeight, w = width + Key() % kCellWidth;
    time = t.times.begin;
    end = h < t.heights.end && w < t.widths.end ? t.times.end : 0;
    row = (static_cast<uint32_t>(time + KeyTime()) * a.grid.height + h) * a.grid.width + w;
  }
  __device__ __forceinline__ void Advance(const NeighbourhoodAttention& a, const Tile& t) {
    time += kCellTime;
    row += static_cast<uint32_t>(kCellTime * a.grid.height) * a.grid.width;
    if (time < t.times.end) return;
    width += kCellWidth;
    if (width >= t.widths.end) width = t.widths.begin, height += kCellHeight;
    BeginColumn(a, t);
  }

  // Begins to load `count` cells.
  __device__ __forceinline__ void Load(const NeighbourhoodAttention& a, const Tile& t, int count, const StageAt& to) {
    const auto piece = static_cast<int>(threadIdx.x % kPieces);
    const uint32_t column = blockIdx.y * kHeadWidth + piece * kVector;
    unsigned char* cell = to.cells + PieceAt(Key(), piece);
#pragma unroll 1
    for (int c = 0; c < count; ++c, cell += 2 * kCellBytes, Advance(a, t)) {
      if (threadIdx.x == 0) to.first_keys[c] = make_int4(time, height, width, time == t.times.begin ? 1 : 0);
      if (time + KeyTime() < end) {
        CopyAsync16(cell, At(a.k, column));
        CopyAsync16(cell + kCellBytes, At(a.v, column));
      } else {
        *reinterpret_cast<uint4*>(cell) = make_uint4(0, 0, 0, 0);
        *reinterpret_cast<uint4*>(cell + kCellBytes) = make_uint4(0, 0, 0, 0);
      }
    }
    CommitCopies();
  }
  __device__ __forceinline__ const bf16* At(const Rows& rows, uint32_t column) const {
    return static_cast<const bf16*>(rows.data) + (uint64_t{row} * static_cast<uint32_t>(rows.stride) + column);
  }
};

// A lane's part of a half: of rows r = lane / 4 and r + 8, columns 2 c and 2 c + 1 of every eight, c = lane % 4.
struct Half {
  unsigned queries[kHeadWidth / 16][4];
  float sums[kPieces][4];
  float maximum[2], denominator[2];  // maximum: of the logits in base 2, less kSlack at most; denominator: of the lane
};

// The queries of a warp: row i of shared memory is query i % 16 of half i / 16.
struct WarpRows {
  int time, height, width;  // the first query
  // Returns the row of q and out, or a negative number outside the box.
  __device__ __forceinline__ int64_t Row(const NeighbourhoodAttention& a, int i) const {
    const int t = time + i / (kCellHeight * kCellWidth) % kCellTime - a.first.time;
    const int h = height + i / kCellKeys * kCellHeight + i / kCellWidth % kCellHeight - a.first.height;
    const int w = width + i % kCellWidth - a.first.width;
    const bool in = t >= 0 && t < a.queries.time && h >= 0 && h < a.queries.height && w >= 0 && w < a.queries.width;
    return in ? (int64_t{t} * a.queries.height + h) * a.queries.width + w : -1;
  }
};

constexpr int kBeyond = 1 << 30;  // the first key of a query that sees none

// The first keys of a lane's rows: in time by row, in height by half, in width of both.
struct Sight {
  int time[2], height[2], width;
  __device__ Sight(const NeighbourhoodAttention& a, const Axes& axes, const WarpRows& rows) {
    const int lane = Lane();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      time[i] = First(axes.time, rows.time + i, a.first.time, a.queries.time);
      height[i] = First(axes.height, rows.height + i * kCellHeight + lane / 16, a.first.height, a.queries.height);
    }
    width = First(axes.width, rows.width + lane / 4 % kCellWidth, a.first.width, a.queries.width);
  }
  static __device__ __forceinline__ int First(const Axis& axis, int query, int first, int queries) {
    return query >= first && query < first + queries ? axis.Start(query) : kBeyond;
  }
};

__device__ __forceinline__ float Allow(bool seen) { return seen ? 0.0f : __uint_as_float(0xff800000u); }
__device__ __forceinline__ bool Within(int key, int start, int window) {
  return static_cast<unsigned>(key - start) < static_cast<unsigned>(window);
}

// Returns what a lane's rows see of a cell in height and width: bit 2 half + i for key i of the lane.
__device__ __forceinline__ unsigned SeenBeside(const Axes& axes, const Sight& sight, const int4& cell) {
  const int lane = Lane(), height = cell.y + lane / 2 % kCellHeight, width = cell.z + lane % 2 * 2;
  unsigned seen = Within(width, sight.width, axes.width.window) ? 0b0101 : 0;
  if (Within(width + 1, sight.width, axes.width.window)) seen |= 0b1010;
  if (!Within(height, sight.height[0], axes.height.window)) seen &= 0b1100;
  if (!Within(height, sight.height[1], axes.height.window)) seen &= 0b0011;
  return seen;
}

// Sets the logits of a cell to 0 where a row sees a key and to −∞ elsewhere: what the products are added to.
// logits[half][n]: rows r (0, 1) and r + 8 (2, 3), keys 8 n + 2 c and 8 n + 2 c + 1. Returns which halves see the cell:
// bits 0 and 1. Leaves the logits if neither does.
__device__ __forceinline__ int Mask(const Axes& axes, const Sight& sight, const int4& cell, unsigned beside,
                                    float (&logits)[2][2][4]) {
  bool in_time[2][2], some = false;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    in_time[i / 2][i % 2] = Within(cell.x + i % 2, sight.time[i / 2], axes.time.window);
    some = some || in_time[i / 2][i % 2];
  }
  const int first = __any_sync(kFullWarp, some && (beside & 0b0011) != 0);
  const int second = __any_sync(kFullWarp, some && (beside & 0b1100) != 0);
  if (first == 0 && second == 0) return 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float allowed[2] = {Allow((beside >> 2 * half & 1) != 0), Allow((beside >> 2 * half & 2) != 0)};
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) logits[half][n][i] = in_time[i / 2][n] ? allowed[i % 2] : Allow(false);
    }
  }
  return (first != 0 ? 1 : 0) | (second != 0 ? 2 : 0);
}

// Turns the logits of a half into weights, a matrix of 16 rows and 16 keys in bf16. Scales earlier sums to a new
// maximum where a row's has grown by more than kSlack.
__device__ __forceinline__ void Soften(float factor, const float (&logits)[2][4], Half& half, unsigned (&weights)[4]) {
  float highest[2];
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    highest[row] = factor * fmaxf(fmaxf(logits[0][2 * row], logits[0][2 * row + 1]),
                                  fmaxf(logits[1][2 * row], logits[1][2 * row + 1]));
  }
  const bool grown = highest[0] > half.maximum[0] + kSlack || highest[1] > half.maximum[1] + kSlack;
  if (__any_sync(kFullWarp, grown)) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      highest[row] = GroupMax<4>(highest[row]);
      if (highest[row] <= half.maximum[row] + kSlack) highest[row] = half.maximum[row];
      const float shrink = FastExp2(half.maximum[row] - highest[row]);
      half.maximum[row] = highest[row];
      half.denominator[row] *= shrink;
#pragma unroll
      for (int n = 0; n < kPieces; ++n) half.sums[n][2 * row] *= shrink, half.sums[n][2 * row + 1] *= shrink;
    }
  }
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float low = FastExp2(fmaf(logits[n][2 * row], factor, -half.maximum[row]));
      const float high = FastExp2(fmaf(logits[n][2 * row + 1], factor, -half.maximum[row]));
      half.denominator[row] += low + high;
      weights[2 * n + row] = PackPair(low, high);
    }
  }
}

// A lane's addresses in the matrices of 16 rows: of a cell's keys, for products with transposed matrices, and of rows
// as they are.
struct Places {
  int keys, rows;
  __device__ Places() {
    const int lane = Lane();
    keys = PieceAt(lane % 8 + lane / 16 * 8, lane / 8 % 2);
    rows = PieceAt(lane % 16, lane / 16);
  }
};

// Adds a cell to the halves from kFirst to kLast.
template <int kFirst, int kLast>
__device__ __forceinline__ void AddCell(const unsigned char* cell, const Places& places, float factor,
                                        float (&logits)[2][2][4], Half (&halves)[2]) {
  unsigned weights[2][4];
#pragma unroll
  for (int k = 0; k < kPieces / 2; ++k) {
    unsigned keys[4];
    LoadMatrices(keys, cell + (places.keys ^ k << 5));
#pragma unroll
    for (int i = kFirst; i <= kLast; ++i) {
      MultiplyTiles(logits[i][0], halves[i].queries[k], keys[0], keys[1]);
      MultiplyTiles(logits[i][1], halves[i].queries[k], keys[2], keys[3]);
    }
  }
#pragma unroll
  for (int i = kFirst; i <= kLast; ++i) Soften(factor, logits[i], halves[i], weights[i]);
#pragma unroll
  for (int k = 0; k < kPieces / 2; ++k) {
    unsigned values[4];
    LoadTransposed(values, cell + kCellBytes + (places.rows ^ k << 5));
#pragma unroll
    for (int i = kFirst; i <= kLast; ++i) {
      MultiplyTiles(halves[i].sums[2 * k], weights[i], values[0], values[1]);
      MultiplyTiles(halves[i].sums[2 * k + 1], weights[i], values[2], values[3]);
    }
  }
}

// Reads a warp's queries by way of its part of shared memory.
__device__ __forceinline__ void LoadQueries(const NeighbourhoodAttention& a, const WarpRows& rows, const Places& places,
                                            unsigned char* part, Half (&halves)[2]) {
  const int lane = Lane(), piece = lane % kPieces;
  const int64_t column = static_cast<int64_t>(blockIdx.y) * kHeadWidth + piece * kVector;
#pragma unroll 1
  for (int i = lane / kPieces; i < kWarpQueries; i += kWarpLanes / kPieces) {
    const int64_t row = rows.Row(a, i);
    unsigned char* const to = part + PieceAt(i, piece);
    if (row >= 0) {
      CopyAsync16(to, static_cast<const bf16*>(a.q.data) + row * a.q.stride + column);
    } else {
      *reinterpret_cast<uint4*>(to) = make_uint4(0, 0, 0, 0);
    }
  }
  CommitCopies();
  WaitCopies<0>();
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int k = 0; k < kPieces / 2; ++k) {
      LoadMatrices(halves[i].queries[k], part + i * kCellBytes + (places.rows ^ k << 5));
    }
    for (float(&sums)[4] : halves[i].sums) sums[0] = sums[1] = sums[2] = sums[3] = 0.0f;
    halves[i].maximum[0] = halves[i].maximum[1] = kLeastLogit;
    halves[i].denominator[0] = halves[i].denominator[1] = 0.0f;
  }
}

__device__ __forceinline__ void StoreSums(const NeighbourhoodAttention& a, const WarpRows& rows, unsigned char* part,
                                          const Half (&halves)[2]) {
  const int lane = Lane(), piece = lane % kPieces;
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // rows r and r + 8 of each half
    const Half& half = halves[i / 2];
    const float factor = __fdividef(1.0f, GroupSum<4>(half.denominator[i % 2]));
#pragma unroll
    for (int n = 0; n < kPieces; ++n) {
      const unsigned pair = PackPair(half.sums[n][i % 2 * 2] * factor, half.sums[n][i % 2 * 2 + 1] * factor);
      *reinterpret_cast<unsigned*>(part + PieceAt(i * 8 + lane / 4, n) + lane % 4 * 4) = pair;
    }
  }
  __syncwarp();
  const int64_t column = static_cast<int64_t>(blockIdx.y) * kHeadWidth + piece * kVector;
#pragma unroll 1
  for (int i = lane / kPieces; i < kWarpQueries; i += kWarpLanes / kPieces) {
    const int64_t row = rows.Row(a, i);
    if (row < 0) continue;
    *reinterpret_cast<uint4*>(static_cast<bf16*>(a.out.data) + row * a.out.stride + column) =
        *reinterpret_cast<const uint4*>(part + PieceAt(i, piece));
  }
}

// Adds `count` cells of a stage to the halves that see them.
__device__ __forceinline__ void AddCells(const Axes& axes, const Sight& sight, const Places& places, int count,
                                         float factor, const StageAt& stage, unsigned& beside, Half (&halves)[2]) {
#pragma unroll 1
  for (int c = 0; c < count; ++c) {
    float logits[2][2][4];
    const int4 first_key = stage.first_keys[c];
    if (first_key.w != 0) beside = SeenBeside(axes, sight, first_key);
    const int seeing = Mask(axes, sight, first_key, beside, logits);
    const unsigned char* const cell = stage.cells + c * 2 * kCellBytes;
    if (seeing == 3) {
      AddCell<0, 1>(cell, places, factor, logits, halves);
    } else if (seeing == 1) {
      AddCell<0, 0>(cell, places, factor, logits, halves);
    } else if (seeing == 2) {
      AddCell<1, 1>(cell, places, factor, logits, halves);
    }
  }
}

__device__ __forceinline__ WarpRows RowsOf(const Tile& tile) {
  const int warp = Warp();
  return {tile.time + warp % 2 * kCellTime, tile.height, tile.width + warp / 2 * kCellWidth};
}

__global__ void __launch_bounds__(kThreads, 3) AttendByTensorCores(NeighbourhoodAttention a) {
  SHARED_ARRAY(Tile, tile, 1);
  SHARED_ARRAY(int4, first_keys, 2 * kStageCells);
  unsigned char* const shared = DynamicShared<unsigned char>();
  const auto stage_at = [&](int i) { return StageAt{shared + i * kStageBytes, first_keys + i * kStageCells}; };
  const int part = Warp() * kWarpQueries * kRowBytes;  // of a warp in a stage
  const Axes axes(a);
  if (threadIdx.x == 0) *tile = FindTile(a, axes, static_cast<int>(blockIdx.x));
  __syncthreads();
  const Sight sight(a, axes, RowsOf(*tile));
  const Places places;
  const float factor = a.scale * 1.4426950408889634f;  // of logits in base 2
  Half halves[2];
  unsigned beside = 0;
  Loader loader(a, *tile);
  loader.Load(a, *tile, min(kStageCells, tile->cells), stage_at(0));
  LoadQueries(a, RowsOf(*tile), places, shared + kStageBytes + part, halves);
  for (int first = 0, stage = 0; first < tile->cells; first += kStageCells, stage ^= 1) {
    WaitCopies<0>();
    __syncthreads();  // the stage is complete, and nobody reads the other one any more
    const int left = tile->cells - first - kStageCells;
    if (left > 0) loader.Load(a, *tile, min(kStageCells, left), stage_at(stage ^ 1));
    AddCells(axes, sight, places, min(kStageCells, tile->cells - first), factor, stage_at(stage), beside, halves);
  }
  __syncthreads();
  StoreSums(a, RowsOf(*tile), shared + part, halves);
}

// Returns the number of tiles that the box meets on an axis.
int64_t Tiles(int first, int queries, int each) { return (first + queries - 1) / each - first / each + 1; }

}  // namespace

bool SuitsTiles(const NeighbourhoodAttention& a) {
  const auto suits = [](const Rows& rows) {
    return rows.type == Type::kBf16 && Vectors(rows, kHeadWidth) && rows.stride <= 0x7fffffff;
  };
  return a.width == kHeadWidth && suits(a.q) && suits(a.k) && suits(a.v) && suits(a.out);
}

cudaError_t LaunchNeighbourhoodTiles(const NeighbourhoodAttention& a, cudaStream_t stream) {
  const int64_t tiles = Tiles(a.first.time, a.queries.time, kTileTime) *
                        Tiles(a.first.height, a.queries.height, kTileHeight) *
                        Tiles(a.first.width, a.queries.width, kTileWidth);
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(a.heads));
  return Launch(AttendByTensorCores, grid, kThreads, 2 * kStageBytes, stream, a);
}

}  // namespace kinora::kernels
