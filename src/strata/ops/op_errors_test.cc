// Misuse of every op: the id, and the part of the message that tells what was wrong.
#include <gtest/gtest.h>

#include "strata/ops/arithmetic.h"
#include "strata/ops/constant.h"
#include "strata/ops/control.h"
#include "strata/ops/cumulative.h"
#include "strata/ops/dot.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/gather.h"
#include "strata/ops/grouped_dot.h"
#include "strata/ops/linalg.h"
#include "strata/ops/misc.h"
#include "strata/ops/parts.h"
#include "strata/ops/random.h"
#include "strata/ops/reduce.h"
#include "strata/ops/shape.h"
#include "strata/ops/sort.h"
#include "strata/testing/errors.h"
#include "strata/testing/executor.h"

namespace strata::ops {
namespace {

using ir::Function;
using ir::Value;
using ir::Values;

struct Misuse {
  const char* id;
  const char* part;
  void (*action)(Function&);
};

Value x(Function& f, const Dims& dims, DType dtype = DType::f32) {
  return f.parameter({dtype, dims});
}
Value index(Function& f) { return x(f, {}, DType::i32); }

void check(std::span<const Misuse> table) {
  for (const Misuse& row : table) {
    SCOPED_TRACE(std::string(row.id) + " with '" + row.part + "'");
    Function f;
    testing::expect_error(Code::invalid_argument, row.id, row.part, [&] { row.action(f); });
  }
}

TEST(OpErrors, Elementwise) {
  const Misuse table[] = {
      {"ops.add", "got 2xf32 and 3xf32", [](Function& f) { add(x(f, {2}), x(f, {3})); }},
      {"ops.multiply", "f32 and bf16",
       [](Function& f) { multiply(x(f, {}), x(f, {}, DType::bf16)); }},
      {"ops.add", "equal types of numbers",
       [](Function& f) { add(x(f, {}, DType::pred), x(f, {}, DType::pred)); }},
      {"ops.tanh", "equal types of floats", [](Function& f) { tanh(x(f, {}, DType::i32)); }},
      {"ops.and", "integers or predicates", [](Function& f) { and_(x(f, {}), x(f, {})); }},
      {"ops.shift_left", "equal types of integers",
       [](Function& f) { shift_left(x(f, {}), x(f, {})); }},
      {"ops.is_finite", "floats", [](Function& f) { is_finite(x(f, {}, DType::i32)); }},
      {"ops.compare", "equal types", [](Function& f) { compare(x(f, {2}), x(f, {}), "EQ"); }},
      {"ops.compare", "got 'eq'", [](Function& f) { compare(x(f, {}), x(f, {}), "eq"); }},
      {"ops.select", "a predicate", [](Function& f) { select(x(f, {}), x(f, {}), x(f, {})); }},
      {"ops.select", "3xpred and 2xf32",
       [](Function& f) { select(x(f, {3}, DType::pred), x(f, {2}), x(f, {2})); }},
      {"ops.clamp", "f32 and 2xf32", [](Function& f) { clamp(x(f, {}), x(f, {2}), x(f, {})); }},
      {"ops.bitcast_convert", "f32 to u16",
       [](Function& f) { bitcast_convert(x(f, {}), DType::u16); }},
      {"ops.null_operand", "a null value", [](Function&) { negate(Value{}); }},
      {"ops.broadcast_to", "stretch to 4xf32", [](Function& f) { broadcast_to(x(f, {3}), {4}); }},
      {"ops.broadcast_together", "2x3xf32 and 2x2xf32",
       [](Function& f) {
         x(f, {2, 3}) + x(f, {2, 2});
       }},
  };
  check(table);
}

TEST(OpErrors, Shape) {
  const Misuse table[] = {
      {"ops.axis", "expected an axis in [-2, 2), got 2",
       [](Function& f) {
         reverse(x(f, {2, 3}), {2});
       }},
      {"ops.repeated_axis", "distinct axes",
       [](Function& f) {
         reduce_sum(x(f, {2, 3}), {1, -1});
       }},
      {"ops.broadcast_in_dim", "array<i64: 3, 2>",
       [](Function& f) {
         broadcast_in_dim(x(f, {2}), {3, 2}, {0});
       }},
      {"ops.reshape", "expected 6 elements",
       [](Function& f) {
         reshape(x(f, {2, 3}), {4});
       }},
      {"ops.transpose", "a permutation of 2 axes",
       [](Function& f) {
         transpose(x(f, {2, 3}), {0, 0});
       }},
      {"ops.slice", "limit array<i64: 4>", [](Function& f) { slice(x(f, {3}), {0}, {4}); }},
      {"ops.pad", "paddings", [](Function& f) { pad(x(f, {3}), x(f, {}), {-2}, {-2}); }},
      {"ops.pad", "3xf32 and 1xf32", [](Function& f) { pad(x(f, {3}), x(f, {1}), {0}, {0}); }},
      {"ops.concatenate", "equal but for axis 0",
       [](Function& f) {
         concatenate({x(f, {2, 3}), x(f, {2, 2})}, 0);
       }},
      {"ops.concatenate", "at least one operand", [](Function&) { concatenate({}, 0); }},
      {"ops.dynamic_slice", "one rank-0 integer index per dim",
       [](Function& f) { dynamic_slice(x(f, {4}), {x(f, {})}, {2}); }},
      {"ops.dynamic_slice", "sizes array<i64: 5>",
       [](Function& f) { dynamic_slice(x(f, {4}), {index(f)}, {5}); }},
      {"ops.dynamic_update_slice", "an update that fits",
       [](Function& f) { dynamic_update_slice(x(f, {4}), x(f, {5}), {index(f)}); }},
      {"ops.iota", "pred along axis 0", [](Function& f) { iota(f, DType::pred, {3}, 0); }},
      {"ops.iota", "along axis 1", [](Function& f) { iota(f, DType::i32, {3}, 1); }},
  };
  check(table);
}

TEST(OpErrors, Matrix) {
  const Misuse table[] = {
      {"ops.dot_general", "contracted array<i64: 0>",
       [](Function& f) {
         dot_general(x(f, {2, 3}), x(f, {3, 4}), {.lhs_contract = {0}, .rhs_contract = {0}});
       }},
      {"ops.dot_general", "one element type",
       [](Function& f) {
         linear(x(f, {2, 3}), x(f, {4, 3}, DType::bf16));
       }},
      {"ops.grouped_dot", "weights [groups, out, in]",
       [](Function& f) {
         grouped_dot(x(f, {8, 3}), x(f, {2, 3, 4}), x(f, {2}, DType::i32));
       }},
      {"ops.grouped_dot", "block 0",
       [](Function& f) {
         grouped_dot(x(f, {8, 3}), x(f, {2, 4, 3}), x(f, {2}, DType::i32), {.block = 0});
       }},
      {"ops.grouped_outer", "8x3xf32 and 7x3xf32",
       [](Function& f) {
         grouped_outer(x(f, {8, 3}), x(f, {7, 3}), x(f, {2}, DType::i32));
       }},
      {"ops.triangular_solve", "square matrices",
       [](Function& f) {
         triangular_solve(x(f, {3, 2}), x(f, {3, 1}));
       }},
      {"ops.triangular_solve", "3x3xf32 and 2x1xf32",
       [](Function& f) {
         triangular_solve(x(f, {3, 3}), x(f, {2, 1}));
       }},
  };
  check(table);
}

TEST(OpErrors, Index) {
  const Misuse table[] = {
      {"ops.gather", "slice sizes [2, 4]",
       [](Function& f) {
         gather(x(f, {5, 4}), x(f, {3, 1}, DType::i32),
                {.offset = {1}, .collapsed = {0}, .start_index_map = {0}, .index_vector = 1},
                {2, 4});
       }},
      {"ops.gather", "integer indices",
       [](Function& f) {
         take(x(f, {5, 4}), x(f, {3}), 0);
       }},
      {"ops.scatter", "start_index_map [0, 1]",
       [](Function& f) {
         scatter_add(
             x(f, {5, 4}), x(f, {3, 1}, DType::i32), x(f, {3, 4}),
             {.offset = {1}, .collapsed = {0}, .start_index_map = {0, 1}, .index_vector = 1});
       }},
      {"ops.scatter", "2x4xf32",
       [](Function& f) {
         scatter(x(f, {5, 4}), x(f, {3, 1}, DType::i32), x(f, {2, 4}),
                 {.offset = {1}, .collapsed = {0}, .start_index_map = {0}, .index_vector = 1});
       }},
      {"ops.along_axis", "2x4xf32 but for axis 1",
       [](Function& f) {
         take_along_axis(x(f, {2, 4}), x(f, {3, 1}, DType::i32), 1);
       }},
      {"ops.sort", "equal dims",
       [](Function& f) {
         sort({x(f, {2}), x(f, {3})}, 0);
       }},
      {"ops.sort", "at least one operand", [](Function&) { sort({}, 0); }},
      {"ops.top_k", "at least k = 5", [](Function& f) { top_k(x(f, {4}), 5); }},
      {"ops.axis", "cumulative_sum", [](Function& f) { cumulative_sum(x(f, {4}), 1); }},
      {"ops.reduce", "a rank-0 start",
       [](Function& f) {
         Value v = x(f, {2});
         f.add(kReduce, {v, v}, {{"kind", "sum"}, {"axes", Dims{0}}});
       }},
      {"ops.add", "numbers", [](Function& f) { reduce_sum(x(f, {2}, DType::pred), {0}); }},
  };
  check(table);
}

TEST(OpErrors, RandomAndMisc) {
  const Misuse table[] = {
      {"ops.threefry2x32", "a key 2xu32", [](Function& f) { split(x(f, {3}, DType::u32), 2); }},
      {"ops.fold_in", "a rank-0 integer", [](Function& f) { fold_in(key(f, 1), x(f, {})); }},
      {"ops.random_bits", "u8, u16, u32 or u64",
       [](Function& f) { random_bits(key(f, 1), DType::i32, {2}); }},
      {"ops.random_float", "uniform: expected f16, bf16, f32 or f64, got i32",
       [](Function& f) { uniform(key(f, 1), DType::i32, {2}); }},
      {"ops.random_float", "normal", [](Function& f) { normal(key(f, 1), DType::u8, {2}); }},
      {"ops.custom_call", "target ''",
       [](Function& f) { custom_call({x(f, {})}, {.target = "", .results = {}}); }},
      {"ops.custom_call", "0 operands",
       [](Function&) { custom_call({}, {.target = "t", .results = {}}); }},
  };
  check(table);
}

TEST(OpErrors, Control) {
  const Misuse table[] = {
      {"ops.scan", "1 carried values",
       [](Function& f) {
         scan(f, {x(f, {})}, {}, {.length = 2},
              [](Value, const Values&, const Values&) -> Step { return {}; });
       }},
      {"ops.scan", "a carry that keeps its types",
       [](Function& f) {
         scan(f, {x(f, {})}, {}, {.length = 2}, [](Value, const Values& c, const Values&) -> Step {
           return {{convert(c[0], DType::f64)}, {}};
         });
       }},
      {"ops.scan", "inputs with 2 steps on axis 0",
       [](Function& f) {
         scan(f, {}, {x(f, {3})}, {.length = 2},
              [](Value, const Values&, const Values& xs) -> Step {
                return {{}, xs};
              });
       }},
      {"ops.if", "a rank-0 predicate",
       [](Function& f) {
         Value v = x(f, {});
         auto branch = [&]() -> Values { return {v}; };
         if_(v, branch, branch);
       }},
      {"ops.if", "two branches",
       [](Function& f) {
         Value v = x(f, {});
         if_(
             x(f, {}, DType::pred), [&]() -> Values { return {v}; },
             [&]() -> Values { return {convert(v, DType::f64)}; });
       }},
      {"ops.while", "a condition",
       [](Function& f) {
         while_loop(
             f, {x(f, {})}, [](const Values& v) { return v[0]; },
             [](const Values& v) -> Values { return v; });
       }},
      {"ops.while", "a body",
       [](Function& f) {
         while_loop(
             f, {x(f, {})}, [](const Values& v) { return is_finite(v[0]); },
             [](const Values&) -> Values { return {}; });
       }},
      {"ops.remat_policy", "none, dots, full, names", [](Function&) { parse_remat("some"); }},
      {"ops.remat_policy", "offload:TAG", [](Function&) { parse_remat("offload"); }},
  };
  check(table);
}

TEST(OpErrors, NameTheModulePath) {
  Function f;
  ir::NameScope layer(f, "model");
  ir::NameScope mlp(f, "layers.3");
  testing::expect_error(Code::invalid_argument, "ops.add", "add at model/layers.3",
                        [&] { add(x(f, {2}), x(f, {3})); });
}

// Two rows of three on a mesh of two.
void parts(Function& f, const std::vector<DimAxes>& in, const std::vector<DimAxes>& out,
           const std::vector<std::string>& split = {"data"}, bool outer = false) {
  f.set_mesh(sharding::Mesh::parse("data=2,fsdp=3"));
  Value a = x(f, {2, 3}), other = x(f, {2, 3});
  on_parts(f, {a}, in, out, split, [&](const Values& v) {
    return Values{outer ? v[0] + slice_axis(other, 0, 0, 1) : v[0]};
  });
}

TEST(OpErrors, OfParts) {
  const Misuse rows[] = {
      {"ops.on_parts", "0 axes",
       [](Function& f) {
         parts(f, {{{"data"}, {}}}, {}, {});
       }},
      {"ops.on_parts", "0 layouts", [](Function& f) { parts(f, {}, {}); }},
      {"ops.on_parts", "for each of 2 dims", [](Function& f) { parts(f, {{{"data"}}}, {}); }},
      {"ops.on_parts", "at the head of one dim",
       [](Function& f) {
         parts(f, {{{"fsdp", "data"}, {}}}, {});
       }},
      {"ops.on_parts", "dims that 2 parts divide",
       [](Function& f) {
         parts(f, {{{}, {"data"}}}, {});
       }},
      {"ops.on_parts", "each of 1 results",
       [](Function& f) {
         parts(f, {{{"data"}, {}}}, {});
       }},
      {"ops.on_parts", "1 outer values",
       [](Function& f) {
         parts(f, {{{"data"}, {}}}, {{{"data"}, {}}}, {"data"}, true);
       }},
      {"ops.take_rows", "indices (S, N)",
       [](Function& f) {
         take_rows(x(f, {2, 3}), x(f, {3, 1}, DType::i32));
       }},
  };
  check(rows);
}

// A result that differs between parts cannot be one without them: found when it is lowered.
TEST(OpErrors, OfPartsThatDiffer) {
  Function f;
  f.set_mesh(sharding::Mesh::parse("data=2"));
  Value a = x(f, {2});
  f.set_results(
      on_parts(f, {a}, {{{"data"}}}, {{{}}}, {"data"}, [](const Values& v) { return v; }));
  testing::expect_error(Code::invalid_argument, "ops.on_parts", "the same on all parts",
                        [&] { testing::program_text(f); });
}

}  // namespace
}  // namespace strata::ops
