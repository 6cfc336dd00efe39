// One test per way in which room sharding refuses something.
#include <gtest/gtest.h>

#include <functional>

#include "strata/base/error.h"
#include "strata/sharding/box.h"
#include "strata/sharding/manifest.h"
#include "strata/sharding/placement.h"
#include "strata/sharding/resolver.h"

namespace strata::sharding {
namespace {

constexpr Code kWrong = Code::invalid_argument;

void expect_error(const std::function<void()>& run, const std::string& id, Code code,
                  const std::string& part) {
  try {
    run();
    ADD_FAILURE() << "nothing was thrown, expected " << id;
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), id) << e.what();
    EXPECT_EQ(strata::name_of(e.code()), strata::name_of(code)) << e.what();
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

ParamType with_axes(std::vector<std::pair<int64_t, std::vector<std::string>>> dims) {
  ParamType type{DType::f32};
  for (auto& [size, axes] : dims) type.dims.push_back({size, Role::none, "", axes});
  return type;
}

TEST(ShardingErrorTest, Dims) {
  Dim layer{3, Role::layer, "layers", {}};
  ParamType once = insert_layer_dim(plain_type(DType::f32, {2}), 0, layer, "model.w");
  expect_error([] { parse_role("stack"); }, "sharding.role_name", kWrong, "inner_layer");
  expect_error([&] { insert_layer_dim(once, 0, layer, "model.w"); }, "sharding.stacked_twice",
               kWrong, "model.w");
  expect_error([&] { insert_layer_dim(once, 0, Dim{3}, "model.w"); }, "sharding.stack_role", kWrong,
               "model.w");
  expect_error(
      [&] {
        insert_layer_dim(once, 0, Dim{-3, Role::inner_layer}, "model.w");
      },
      "sharding.stack_size", kWrong, "-3");
  expect_error([&] { normalised_stack_axis(-3, 1, "model.w"); }, "sharding.stack_axis",
               Code::out_of_range, "at least -2");
  expect_error([&] { erase_layer_dim(once, Role::inner_layer, "model.w"); }, "sharding.not_stacked",
               kWrong, "inner_layer");
  expect_error([&] { erase_layer_dim(once, Role::none, "model.w"); }, "sharding.not_stacked",
               kWrong, "model.w");
  expect_error([] { plain_type(DType::f64, {int64_t{1} << 62}).bytes(); },
               "sharding.bytes_overflow", Code::out_of_range, "2^63");
}

TEST(ShardingErrorTest, Meshes) {
  expect_error([] { Mesh::parse("a"); }, "sharding.mesh_parse", kWrong, "axis=size");
  expect_error([] { Mesh::parse("a=2,b=x"); }, "sharding.mesh_parse", kWrong, "'x'");
  expect_error([] { Mesh::parse("a=2,"); }, "sharding.mesh_parse", kWrong, "''");
  expect_error([] { Mesh::parse("a=99999999999999999999"); }, "sharding.mesh_parse", kWrong,
               "whole number");
  expect_error([] { Mesh::parse("=2"); }, "sharding.mesh_name", kWrong, "''");
  expect_error([] { Mesh::parse("2a=2"); }, "sharding.mesh_name", kWrong, "'2a'");
  expect_error([] { Mesh::parse("a=2,a=2"); }, "sharding.mesh_axis_twice", kWrong, "'a' twice");
  expect_error([] { Mesh::parse("a=0"); }, "sharding.mesh_size", kWrong, "at least 1");
  expect_error([] { Mesh::parse("a=65536,b=65536"); }, "sharding.mesh_too_large", kWrong, "'b'");
  expect_error([] { Mesh({{"a", 2}}, {0}); }, "sharding.mesh_devices", kWrong, "2 device ids");
  expect_error([] { Mesh({{"a", 2}}, {1, 1}); }, "sharding.mesh_device_twice", kWrong, "[1, 1]");
  expect_error([] { Mesh({{"a", 2}}, {-1, 1}); }, "sharding.mesh_device_twice", kWrong, "[-1, 1]");
  Mesh mesh = Mesh::parse("fsdp=2,tensor=2");
  expect_error([&] { mesh.coordinates(4); }, "sharding.mesh_position", Code::out_of_range,
               "below 4");
  expect_error(
      [&] { mesh.axis_size("tensro", "w"); }, "sharding.unknown_axis", Code::not_found,
      "w: expected a mesh axis, one of fsdp, tensor, got 'tensro'. Did you mean 'tensor'?");
}

TEST(ShardingErrorTest, Layouts) {
  Mesh mesh = Mesh::parse("a=2,b=4");
  expect_error(
      [&] {
        check_layout(with_axes({{2, {"a"}}, {2, {"a"}}}), mesh, "w");
      },
      "sharding.axis_on_two_dims", kWrong, "w, dim 1");
  expect_error(
      [&] {
        shard_sizes(with_axes({{16, {}}, {6, {"b"}}}), mesh, "w");
      },
      "sharding.not_divisible", kWrong, "divisible by 4 (b), got 6");
  expect_error(
      [&] {
        shard_box(with_axes({{16, {"c"}}}), mesh, 0, "w");
      },
      "sharding.unknown_axis", Code::not_found, "w, dim 0");
  expect_error(
      [] {
        intersect({{0}, {1}}, {{0, 0}, {1, 1}});
      },
      "sharding.box_rank", kWrong, "equal ranks");
}

TEST(ShardingErrorTest, Rules) {
  Mesh mesh = Mesh::parse("fsdp=2,tensor=2");
  expect_error([] { parse_rule("embed"); }, "sharding.rule", kWrong, "'embed'");
  expect_error([] { parse_rule("embed = a, "); }, "sharding.rule", kWrong, "an empty axis");
  expect_error(
      [&] {
        check_rules({{"x", {}}, {"x", {}}}, mesh);
      },
      "sharding.rule_twice", kWrong, "'x'");
  expect_error(
      [&] {
        check_rules({{"x", {{"fsdp", "fsdp"}}}}, mesh);
      },
      "sharding.rule_axis_twice", kWrong, "fsdp+fsdp");
  expect_error(
      [&] {
        check_rules({{"x", {{"fdsp"}}}}, mesh);
      },
      "sharding.unknown_axis", Code::not_found, "sharding rule 'x'");
  ParamType type{DType::f32, {{7, Role::none, "embed", {}}}};
  expect_error(
      [&] {
        resolve(type, {{"embd", {}}}, mesh, "w", false);
      },
      "sharding.unknown_name", Code::not_found, "Did you mean 'embd'?");
  expect_error(
      [&] {
        resolve(type, {{"embed", {{"fsdp"}}}}, mesh, "w", true);
      },
      "sharding.strict", Code::failed_precondition, "fsdp (2) does not divide it");
}

TEST(ShardingErrorTest, LayerPlans) {
  LayerPlan plan{"model.layers", {{0, 2, 2, true}}};
  expect_error([&] { plan.place(4); }, "sharding.plan_layer", Code::out_of_range, "below 4");
  expect_error(
      [&] {
        plan.layer_at({0, 2, 0});
      },
      "sharding.plan_place", Code::out_of_range, "repeat 2");
  expect_error([&] { plan.stacked_name(1, 0, "w"); }, "sharding.plan_place", Code::out_of_range,
               "run 1");
  for (LayerRun run : {LayerRun{1, 1, 1, true}, LayerRun{0, 0, 1, true}, LayerRun{0, 1, 0, true},
                       LayerRun{0, int64_t{1} << 40, int64_t{1} << 40, true}}) {
    expect_error(
        [&] {
          check_plan({"model.layers", {run}});
        },
        "sharding.plan_runs", kWrong, "model.layers");
  }
}

TEST(ShardingErrorTest, Manifests) {
  auto slot = [](std::string name, ParamType type = {}) {
    return Slot{std::move(name), Kind::param, std::move(type)};
  };
  auto make = [](std::vector<Slot> slots, std::vector<Tie> ties = {}) {
    return Manifest(std::move(slots), std::move(ties), {});
  };
  expect_error([&] { make({slot("")}); }, "sharding.slot_name", kWrong, "not empty");
  expect_error([&] { make({slot("\xff")}); }, "sharding.slot_name", kWrong, "UTF-8");
  expect_error(
      [&] {
        make({slot("w"), slot("w")});
      },
      "sharding.name_twice", Code::already_exists, "'w' twice");
  expect_error(
      [&] {
        make({slot("w"), slot("v")}, {{"w", "v"}});
      },
      "sharding.name_twice", Code::already_exists, "'w' twice");
  expect_error([&] { make({slot("w")}, {{"head", "x"}}); }, "sharding.tie_owner", kWrong, "'head'");
  expect_error(
      [&] {
        make({slot("w")}, {{"a", "w"}, {"b", "a"}});
      },
      "sharding.tie_owner", kWrong, "'b'");
  expect_error([&] { make({slot("w", plain_type(DType::f32, {-1}))}); }, "sharding.slot_dim",
               kWrong, "f32[-1]");
  expect_error(
      [&] {
        make({slot("w", with_axes({{2, {"a"}}, {2, {"a"}}}))});
      },
      "sharding.axis_twice", kWrong, "'a' twice");
  expect_error([&] { make({slot("model.norm.weight")}).at("model.norm.wieght"); },
               "sharding.unknown_slot", Code::not_found, "Did you mean 'model.norm.weight'?");
}

TEST(ShardingErrorTest, ManifestFiles) {
  Json good = Manifest({{"w", Kind::param, with_axes({{2, {"a"}}})}}, {{"v", "w"}},
                       {{"s", {{0, 1, 2, true}}}})
                  .to_json();
  auto broken = [&](auto&& edit) {
    return [json = good, edit]() mutable {
      edit(json);
      Manifest::from_json(json, "m.json");
    };
  };
  Code lost = Code::data_loss;
  EXPECT_NO_THROW(Manifest::from_json(good, "m.json"));
  expect_error(broken([](Json& j) { j["version"] = 2; }), "sharding.manifest_version",
               Code::unimplemented, "version 1");
  expect_error(broken([](Json& j) { j["extra"] = 2; }), "sharding.manifest_key", lost, "'extra'");
  expect_error(broken([](Json& j) { j["slots"][0]["dims"][0]["x"] = 1; }), "sharding.manifest_key",
               lost, "slots[0]");
  expect_error(broken([](Json& j) { j["slots"][0] = 3; }), "sharding.manifest_object", lost,
               "slots[0]");
  expect_error(broken([](Json& j) { j.erase("ties"); }), "sharding.manifest_array", lost, "'ties'");
  expect_error(broken([](Json& j) { j["slots"][0]["dims"][0]["axes"] = {1}; }),
               "sharding.manifest_axis", lost, "as strings");
  expect_error(broken([](Json& j) { j["slots"][0]["kind"] = "weight"; }), "sharding.slot_kind",
               lost, "param, buffer or adapter");
  expect_error(broken([](Json& j) { j["slots"][0]["dtype"] = "float"; }), "base.dtype_name", kWrong,
               "'float'");
  expect_error(broken([](Json& j) { j["slots"][0]["dims"][0]["size"] = "2"; }), "json.type", kWrong,
               "m.json, slots[0]");
  expect_error(broken([](Json& j) { j["plans"][0]["runs"][0]["first"] = 1; }), "sharding.plan_runs",
               kWrong, "starts at 0");
}

TEST(ShardingErrorTest, PartitionSpecs) {
  auto read = [](const char* text) { return [text] { parse_partition_spec(text); }; };
  expect_error(read("P('fsdp'"), "sharding.spec", kWrong, "the end");
  expect_error(read("P('fsdp') x"), "sharding.spec", kWrong, "nothing after the spec");
  expect_error(read("P('fsdp' 'x')"), "sharding.spec", kWrong, "expected ','");
  expect_error(read("P('fs dp')"), "sharding.spec", kWrong, "letters, digits");
  expect_error(read("{devices=[2,1]<=[2]}"), "sharding.spec", kWrong, "'=[2,1]");
  expect_error(read("['a', 3 + ]"), "sharding.spec", kWrong, "a name, None or a list");
  expect_error(read("[{\"a\":(1)2}, {}]"), "sharding.spec_form", Code::unimplemented, "sub-axis");
  expect_error(read("#sdy.sharding<@mesh, [{\"a\"}p1]>"), "sharding.spec_form", Code::unimplemented,
               "a priority");
  expect_error(read("#sdy.sharding<@mesh, [{}], replicated={\"a\"}>"), "sharding.spec_form",
               Code::unimplemented, "replicated");
  expect_error([] { parse_spec_rule("P('a')"); }, "sharding.spec_rule", kWrong, "GLOB = SPEC");
  const Mesh mesh = Mesh::parse("a=2,b=2");
  auto apply = [&](const Dims& sizes, const char* text) {
    return [&mesh, sizes, text] {
      with_spec(plain_type(DType::f32, sizes), parse_partition_spec(text), mesh, "w");
    };
  };
  expect_error(apply({4}, "P('a', 'b')"), "sharding.spec_rank", kWrong, "at most 1 entries");
  expect_error(apply({}, "P(None)"), "sharding.spec_rank", kWrong, "at most 0 entries");
  expect_error(apply({4}, "P(('a', 'c'))"), "sharding.spec_names", kWrong, "got a, c");
  expect_error(apply({4, 4}, "P('a', 'a')"), "sharding.axis_on_two_dims", kWrong, "a");
  expect_error(apply({3}, "P('a')"), "sharding.not_divisible", kWrong, "w");
  Manifest manifest({{"w", Kind::param, plain_type(DType::f32, {4})}}, {}, {});
  expect_error(
      [&] {
        place(manifest, {.mesh = mesh, .specs = {{"v*", {}}}}, {});
      },
      "sharding.spec_unmatched", Code::not_found, "'v*'");
}

}  // namespace
}  // namespace strata::sharding
