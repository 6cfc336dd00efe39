module @main attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3xf32> {mhlo.layout_mode = "default"}, %arg1: tensor<4x3x3xf32> {mhlo.layout_mode = "default"}, %arg2: tensor<3xf32> {mhlo.layout_mode = "default"}) -> (tensor<f32> {mhlo.layout_mode = "default"}, tensor<2x3xf32> {mhlo.layout_mode = "default"}, tensor<4x3x3xf32> {mhlo.layout_mode = "default"}, tensor<3xf32> {mhlo.layout_mode = "default"}) {
    %0 = "stablehlo.constant"() {value = dense<0x00000000> : tensor<f32>} : () -> tensor<f32>
    %1 = "stablehlo.broadcast_in_dim"(%0) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x2x3xf32>
    %2 = "stablehlo.constant"() {value = dense<0x00000000> : tensor<f32>} : () -> tensor<f32>
    %3 = "stablehlo.broadcast_in_dim"(%2) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x2x3xf32>
    %4 = "stablehlo.constant"() {value = dense<0x00000000> : tensor<f32>} : () -> tensor<f32>
    %5 = "stablehlo.broadcast_in_dim"(%4) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x2x3xf32>
    %6 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %7:7 = "stablehlo.while"(%arg0, %arg1, %arg2, %1, %3, %5, %6) ({
      ^bb0(%8: tensor<2x3xf32>, %9: tensor<4x3x3xf32>, %10: tensor<3xf32>, %11: tensor<4x2x3xf32>, %12: tensor<4x2x3xf32>, %13: tensor<4x2x3xf32>, %14: tensor<i32>):
        %15 = "stablehlo.constant"() {value = dense<4> : tensor<i32>} : () -> tensor<i32>
        %16 = "stablehlo.compare"(%14, %15) {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
        "stablehlo.return"(%16) : (tensor<i1>) -> ()
    }, {
      ^bb0(%17: tensor<2x3xf32>, %18: tensor<4x3x3xf32>, %19: tensor<3xf32>, %20: tensor<4x2x3xf32>, %21: tensor<4x2x3xf32>, %22: tensor<4x2x3xf32>, %23: tensor<i32>):
        %24 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
        %25 = "stablehlo.dynamic_slice"(%18, %23, %24, %24) {slice_sizes = array<i64: 1, 3, 3>} : (tensor<4x3x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x3x3xf32>
        %26 = "stablehlo.reshape"(%25) : (tensor<1x3x3xf32>) -> tensor<3x3xf32>
        %27 = "stablehlo.dot_general"(%17, %26) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
        %28 = "stablehlo.tanh"(%27) : (tensor<2x3xf32>) -> tensor<2x3xf32>
        %29 = "stablehlo.broadcast_in_dim"(%19) {broadcast_dimensions = array<i64: 1>} : (tensor<3xf32>) -> tensor<2x3xf32>
        %30 = "stablehlo.multiply"(%28, %29) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
        %31 = "stablehlo.reshape"(%28) : (tensor<2x3xf32>) -> tensor<1x2x3xf32>
        %32 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
        %33 = "stablehlo.dynamic_update_slice"(%20, %31, %23, %32, %32) : (tensor<4x2x3xf32>, tensor<1x2x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x3xf32>
        %34 = "stablehlo.constant"() {value = dense<0x3F800000> : tensor<f32>} : () -> tensor<f32>
        %35 = "stablehlo.broadcast_in_dim"(%34) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<2x3xf32>
        %36 = "stablehlo.multiply"(%28, %28) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
        %37 = "stablehlo.subtract"(%35, %36) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
        %38 = "stablehlo.reshape"(%37) : (tensor<2x3xf32>) -> tensor<1x2x3xf32>
        %39 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
        %40 = "stablehlo.dynamic_update_slice"(%21, %38, %23, %39, %39) : (tensor<4x2x3xf32>, tensor<1x2x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x3xf32>
        %41 = "stablehlo.reshape"(%17) : (tensor<2x3xf32>) -> tensor<1x2x3xf32>
        %42 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
        %43 = "stablehlo.dynamic_update_slice"(%22, %41, %23, %42, %42) : (tensor<4x2x3xf32>, tensor<1x2x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x3xf32>
        %44 = "stablehlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
        %45 = "stablehlo.add"(%23, %44) : (tensor<i32>, tensor<i32>) -> tensor<i32>
        "stablehlo.return"(%30, %18, %19, %33, %40, %43, %45) : (tensor<2x3xf32>, tensor<4x3x3xf32>, tensor<3xf32>, tensor<4x2x3xf32>, tensor<4x2x3xf32>, tensor<4x2x3xf32>, tensor<i32>) -> ()
    }) : (tensor<2x3xf32>, tensor<4x3x3xf32>, tensor<3xf32>, tensor<4x2x3xf32>, tensor<4x2x3xf32>, tensor<4x2x3xf32>, tensor<i32>) -> (tensor<2x3xf32>, tensor<4x3x3xf32>, tensor<3xf32>, tensor<4x2x3xf32>, tensor<4x2x3xf32>, tensor<4x2x3xf32>, tensor<i32>)
    %46 = "stablehlo.constant"() {value = dense<0x00000000> : tensor<f32>} : () -> tensor<f32>
    %47 = "stablehlo.reduce"(%7#0, %46) ({
      ^bb0(%48: tensor<f32>, %49: tensor<f32>):
        %50 = "stablehlo.add"(%48, %49) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%50) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 0, 1>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
    %51 = "stablehlo.constant"() {value = dense<0x3F800000> : tensor<f32>} : () -> tensor<f32>
    %52 = "stablehlo.reshape"(%51) : (tensor<f32>) -> tensor<1x1xf32>
    %53 = "stablehlo.reshape"(%52) : (tensor<1x1xf32>) -> tensor<f32>
    %54 = "stablehlo.broadcast_in_dim"(%53) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<2x3xf32>
    %55 = "stablehlo.constant"() {value = dense<0x00000000> : tensor<f32>} : () -> tensor<f32>
    %56 = "stablehlo.broadcast_in_dim"(%55) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<3xf32>
    %57 = "stablehlo.constant"() {value = dense<0x00000000> : tensor<f32>} : () -> tensor<f32>
    %58 = "stablehlo.broadcast_in_dim"(%57) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x3x3xf32>
    %59 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %60:9 = "stablehlo.while"(%54, %56, %arg1, %7#3, %7#4, %7#5, %arg2, %58, %59) ({
      ^bb0(%61: tensor<2x3xf32>, %62: tensor<3xf32>, %63: tensor<4x3x3xf32>, %64: tensor<4x2x3xf32>, %65: tensor<4x2x3xf32>, %66: tensor<4x2x3xf32>, %67: tensor<3xf32>, %68: tensor<4x3x3xf32>, %69: tensor<i32>):
        %70 = "stablehlo.constant"() {value = dense<4> : tensor<i32>} : () -> tensor<i32>
        %71 = "stablehlo.compare"(%69, %70) {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
        "stablehlo.return"(%71) : (tensor<i1>) -> ()
    }, {
      ^bb0(%72: tensor<2x3xf32>, %73: tensor<3xf32>, %74: tensor<4x3x3xf32>, %75: tensor<4x2x3xf32>, %76: tensor<4x2x3xf32>, %77: tensor<4x2x3xf32>, %78: tensor<3xf32>, %79: tensor<4x3x3xf32>, %80: tensor<i32>):
        %81 = "stablehlo.broadcast_in_dim"(%78) {broadcast_dimensions = array<i64: 1>} : (tensor<3xf32>) -> tensor<2x3xf32>
        %82 = "stablehlo.multiply"(%72, %81) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
        %83 = "stablehlo.constant"() {value = dense<3> : tensor<i32>} : () -> tensor<i32>
        %84 = "stablehlo.subtract"(%83, %80) : (tensor<i32>, tensor<i32>) -> tensor<i32>
        %85 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
        %86 = "stablehlo.dynamic_slice"(%76, %84, %85, %85) {slice_sizes = array<i64: 1, 2, 3>} : (tensor<4x2x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x3xf32>
        %87 = "stablehlo.reshape"(%86) : (tensor<1x2x3xf32>) -> tensor<2x3xf32>
        %88 = "stablehlo.multiply"(%82, %87) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
        %89 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
        %90 = "stablehlo.dynamic_slice"(%74, %84, %89, %89) {slice_sizes = array<i64: 1, 3, 3>} : (tensor<4x3x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x3x3xf32>
        %91 = "stablehlo.reshape"(%90) : (tensor<1x3x3xf32>) -> tensor<3x3xf32>
        %92 = "stablehlo.dot_general"(%88, %91) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
        %93 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
        %94 = "stablehlo.dynamic_slice"(%75, %84, %93, %93) {slice_sizes = array<i64: 1, 2, 3>} : (tensor<4x2x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x3xf32>
        %95 = "stablehlo.reshape"(%94) : (tensor<1x2x3xf32>) -> tensor<2x3xf32>
        %96 = "stablehlo.multiply"(%72, %95) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
        %97 = "stablehlo.constant"() {value = dense<0x00000000> : tensor<f32>} : () -> tensor<f32>
        %98 = "stablehlo.reduce"(%96, %97) ({
          ^bb0(%99: tensor<f32>, %100: tensor<f32>):
            %101 = "stablehlo.add"(%99, %100) : (tensor<f32>, tensor<f32>) -> tensor<f32>
            "stablehlo.return"(%101) : (tensor<f32>) -> ()
        }) {dimensions = array<i64: 0>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
        %102 = "stablehlo.add"(%73, %98) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
        %103 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
        %104 = "stablehlo.dynamic_slice"(%77, %84, %103, %103) {slice_sizes = array<i64: 1, 2, 3>} : (tensor<4x2x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x3xf32>
        %105 = "stablehlo.reshape"(%104) : (tensor<1x2x3xf32>) -> tensor<2x3xf32>
        %106 = "stablehlo.dot_general"(%88, %105) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<3x3xf32>
        %107 = "stablehlo.reshape"(%106) : (tensor<3x3xf32>) -> tensor<1x3x3xf32>
        %108 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
        %109 = "stablehlo.dynamic_update_slice"(%79, %107, %84, %108, %108) : (tensor<4x3x3xf32>, tensor<1x3x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x3x3xf32>
        %110 = "stablehlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
        %111 = "stablehlo.add"(%80, %110) : (tensor<i32>, tensor<i32>) -> tensor<i32>
        "stablehlo.return"(%92, %102, %74, %75, %76, %77, %78, %109, %111) : (tensor<2x3xf32>, tensor<3xf32>, tensor<4x3x3xf32>, tensor<4x2x3xf32>, tensor<4x2x3xf32>, tensor<4x2x3xf32>, tensor<3xf32>, tensor<4x3x3xf32>, tensor<i32>) -> ()
    }) : (tensor<2x3xf32>, tensor<3xf32>, tensor<4x3x3xf32>, tensor<4x2x3xf32>, tensor<4x2x3xf32>, tensor<4x2x3xf32>, tensor<3xf32>, tensor<4x3x3xf32>, tensor<i32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<4x3x3xf32>, tensor<4x2x3xf32>, tensor<4x2x3xf32>, tensor<4x2x3xf32>, tensor<3xf32>, tensor<4x3x3xf32>, tensor<i32>)
    "func.return"(%47, %60#0, %60#7, %60#1) : (tensor<f32>, tensor<2x3xf32>, tensor<4x3x3xf32>, tensor<3xf32>) -> ()
  }
}
