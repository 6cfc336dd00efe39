module @main attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3xf32> {mhlo.layout_mode = "default"}, %arg1: tensor<4x3x3xf32> {mhlo.layout_mode = "default"}, %arg2: tensor<3xf32> {mhlo.layout_mode = "default"}) -> (tensor<f32> {mhlo.layout_mode = "default"}, tensor<2x3xf32> {mhlo.layout_mode = "default"}, tensor<4x3x3xf32> {mhlo.layout_mode = "default"}, tensor<3xf32> {mhlo.layout_mode = "default"}) {
    %0 = "stablehlo.constant"() {value = dense<0x00000000> : tensor<f32>} : () -> tensor<f32>
    %1 = "stablehlo.broadcast_in_dim"(%0) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x2x3xf32>
    %2 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %3:5 = "stablehlo.while"(%arg0, %arg1, %arg2, %1, %2) ({
      ^bb0(%4: tensor<2x3xf32>, %5: tensor<4x3x3xf32>, %6: tensor<3xf32>, %7: tensor<4x2x3xf32>, %8: tensor<i32>):
        %9 = "stablehlo.constant"() {value = dense<4> : tensor<i32>} : () -> tensor<i32>
        %10 = "stablehlo.compare"(%8, %9) {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
        "stablehlo.return"(%10) : (tensor<i1>) -> ()
    }, {
      ^bb0(%11: tensor<2x3xf32>, %12: tensor<4x3x3xf32>, %13: tensor<3xf32>, %14: tensor<4x2x3xf32>, %15: tensor<i32>):
        %16 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
        %17 = "stablehlo.dynamic_slice"(%12, %15, %16, %16) {slice_sizes = array<i64: 1, 3, 3>} : (tensor<4x3x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x3x3xf32>
        %18 = "stablehlo.reshape"(%17) : (tensor<1x3x3xf32>) -> tensor<3x3xf32>
        %19 = "stablehlo.dot_general"(%11, %18) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
        %20 = "stablehlo.tanh"(%19) : (tensor<2x3xf32>) -> tensor<2x3xf32>
        %21 = "stablehlo.broadcast_in_dim"(%13) {broadcast_dimensions = array<i64: 1>} : (tensor<3xf32>) -> tensor<2x3xf32>
        %22 = "stablehlo.multiply"(%20, %21) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
        %23 = "stablehlo.reshape"(%11) : (tensor<2x3xf32>) -> tensor<1x2x3xf32>
        %24 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
        %25 = "stablehlo.dynamic_update_slice"(%14, %23, %15, %24, %24) : (tensor<4x2x3xf32>, tensor<1x2x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x3xf32>
        %26 = "stablehlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
        %27 = "stablehlo.add"(%15, %26) : (tensor<i32>, tensor<i32>) -> tensor<i32>
        "stablehlo.return"(%22, %12, %13, %25, %27) : (tensor<2x3xf32>, tensor<4x3x3xf32>, tensor<3xf32>, tensor<4x2x3xf32>, tensor<i32>) -> ()
    }) : (tensor<2x3xf32>, tensor<4x3x3xf32>, tensor<3xf32>, tensor<4x2x3xf32>, tensor<i32>) -> (tensor<2x3xf32>, tensor<4x3x3xf32>, tensor<3xf32>, tensor<4x2x3xf32>, tensor<i32>)
    %28 = "stablehlo.constant"() {value = dense<0x00000000> : tensor<f32>} : () -> tensor<f32>
    %29 = "stablehlo.reduce"(%3#0, %28) ({
      ^bb0(%30: tensor<f32>, %31: tensor<f32>):
        %32 = "stablehlo.add"(%30, %31) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%32) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 0, 1>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
    %33 = "stablehlo.constant"() {value = dense<0x3F800000> : tensor<f32>} : () -> tensor<f32>
    %34 = "stablehlo.reshape"(%33) : (tensor<f32>) -> tensor<1x1xf32>
    %35 = "stablehlo.reshape"(%34) : (tensor<1x1xf32>) -> tensor<f32>
    %36 = "stablehlo.broadcast_in_dim"(%35) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<2x3xf32>
    %37 = "stablehlo.constant"() {value = dense<0x00000000> : tensor<f32>} : () -> tensor<f32>
    %38 = "stablehlo.broadcast_in_dim"(%37) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<3xf32>
    %39 = "stablehlo.constant"() {value = dense<0x00000000> : tensor<f32>} : () -> tensor<f32>
    %40 = "stablehlo.broadcast_in_dim"(%39) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x3x3xf32>
    %41 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %42:7 = "stablehlo.while"(%36, %38, %arg1, %3#3, %arg2, %40, %41) ({
      ^bb0(%43: tensor<2x3xf32>, %44: tensor<3xf32>, %45: tensor<4x3x3xf32>, %46: tensor<4x2x3xf32>, %47: tensor<3xf32>, %48: tensor<4x3x3xf32>, %49: tensor<i32>):
        %50 = "stablehlo.constant"() {value = dense<4> : tensor<i32>} : () -> tensor<i32>
        %51 = "stablehlo.compare"(%49, %50) {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
        "stablehlo.return"(%51) : (tensor<i1>) -> ()
    }, {
      ^bb0(%52: tensor<2x3xf32>, %53: tensor<3xf32>, %54: tensor<4x3x3xf32>, %55: tensor<4x2x3xf32>, %56: tensor<3xf32>, %57: tensor<4x3x3xf32>, %58: tensor<i32>):
        %59 = "stablehlo.broadcast_in_dim"(%56) {broadcast_dimensions = array<i64: 1>} : (tensor<3xf32>) -> tensor<2x3xf32>
        %60 = "stablehlo.multiply"(%52, %59) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
        %61 = "stablehlo.constant"() {value = dense<0x3F800000> : tensor<f32>} : () -> tensor<f32>
        %62 = "stablehlo.broadcast_in_dim"(%61) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<2x3xf32>
        %63 = "stablehlo.constant"() {value = dense<3> : tensor<i32>} : () -> tensor<i32>
        %64 = "stablehlo.subtract"(%63, %58) : (tensor<i32>, tensor<i32>) -> tensor<i32>
        %65 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
        %66 = "stablehlo.dynamic_slice"(%55, %64, %65, %65) {slice_sizes = array<i64: 1, 2, 3>} : (tensor<4x2x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x3xf32>
        %67 = "stablehlo.reshape"(%66) : (tensor<1x2x3xf32>) -> tensor<2x3xf32>
        %68 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
        %69 = "stablehlo.dynamic_slice"(%54, %64, %68, %68) {slice_sizes = array<i64: 1, 3, 3>} : (tensor<4x3x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x3x3xf32>
        %70 = "stablehlo.reshape"(%69) : (tensor<1x3x3xf32>) -> tensor<3x3xf32>
        %71 = "stablehlo.dot_general"(%67, %70) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
        %72 = "stablehlo.tanh"(%71) : (tensor<2x3xf32>) -> tensor<2x3xf32>
        %73 = "stablehlo.multiply"(%72, %72) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
        %74 = "stablehlo.subtract"(%62, %73) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
        %75 = "stablehlo.multiply"(%60, %74) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
        %76 = "stablehlo.dot_general"(%75, %70) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
        %77 = "stablehlo.multiply"(%52, %72) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
        %78 = "stablehlo.constant"() {value = dense<0x00000000> : tensor<f32>} : () -> tensor<f32>
        %79 = "stablehlo.reduce"(%77, %78) ({
          ^bb0(%80: tensor<f32>, %81: tensor<f32>):
            %82 = "stablehlo.add"(%80, %81) : (tensor<f32>, tensor<f32>) -> tensor<f32>
            "stablehlo.return"(%82) : (tensor<f32>) -> ()
        }) {dimensions = array<i64: 0>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
        %83 = "stablehlo.add"(%53, %79) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
        %84 = "stablehlo.dot_general"(%75, %67) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<3x3xf32>
        %85 = "stablehlo.reshape"(%84) : (tensor<3x3xf32>) -> tensor<1x3x3xf32>
        %86 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
        %87 = "stablehlo.dynamic_update_slice"(%57, %85, %64, %86, %86) : (tensor<4x3x3xf32>, tensor<1x3x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x3x3xf32>
        %88 = "stablehlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
        %89 = "stablehlo.add"(%58, %88) : (tensor<i32>, tensor<i32>) -> tensor<i32>
        "stablehlo.return"(%76, %83, %54, %55, %56, %87, %89) : (tensor<2x3xf32>, tensor<3xf32>, tensor<4x3x3xf32>, tensor<4x2x3xf32>, tensor<3xf32>, tensor<4x3x3xf32>, tensor<i32>) -> ()
    }) : (tensor<2x3xf32>, tensor<3xf32>, tensor<4x3x3xf32>, tensor<4x2x3xf32>, tensor<3xf32>, tensor<4x3x3xf32>, tensor<i32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<4x3x3xf32>, tensor<4x2x3xf32>, tensor<3xf32>, tensor<4x3x3xf32>, tensor<i32>)
    "func.return"(%29, %42#0, %42#5, %42#1) : (tensor<f32>, tensor<2x3xf32>, tensor<4x3x3xf32>, tensor<3xf32>) -> ()
  }
}
