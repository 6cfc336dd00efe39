module @main attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2xf32> {mhlo.layout_mode = "default"}, %arg1: tensor<f32> {mhlo.layout_mode = "default"}, %arg2: tensor<f32> {mhlo.layout_mode = "default"}, %arg3: tensor<i32> {mhlo.layout_mode = "default"}, %arg4: tensor<i32> {mhlo.layout_mode = "default"}, %arg5: tensor<2xbf16> {mhlo.layout_mode = "default"}, %arg6: tensor<f32> {mhlo.layout_mode = "default"}, %arg7: tensor<f32> {mhlo.layout_mode = "default"}) -> (tensor<2xf32> {mhlo.layout_mode = "default"}, tensor<f32> {mhlo.layout_mode = "default"}, tensor<f32> {mhlo.layout_mode = "default"}, tensor<i32> {mhlo.layout_mode = "default"}, tensor<i32> {mhlo.layout_mode = "default"}) {
    %0 = "stablehlo.constant"() {value = dense<0x00000000> : tensor<f32>} : () -> tensor<f32>
    %1 = "stablehlo.convert"(%arg5) : (tensor<2xbf16>) -> tensor<2xf32>
    %2 = "stablehlo.constant"() {value = dense<0x00000000> : tensor<f32>} : () -> tensor<f32>
    %3 = "stablehlo.reduce"(%1, %2) ({
      ^bb0(%4: tensor<f32>, %5: tensor<f32>):
        %6 = "stablehlo.add"(%4, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%6) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 0>} : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
    %7 = "stablehlo.add"(%0, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %8 = "stablehlo.add"(%7, %arg6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %9 = "stablehlo.add"(%8, %arg7) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %10 = "stablehlo.is_finite"(%9) : (tensor<f32>) -> tensor<i1>
    %11 = "stablehlo.add"(%arg0, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %12 = "stablehlo.select"(%10, %11, %arg0) : (tensor<i1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %13 = "stablehlo.add"(%arg1, %arg6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %14 = "stablehlo.select"(%10, %13, %arg1) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %15 = "stablehlo.add"(%arg2, %arg7) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %16 = "stablehlo.select"(%10, %15, %arg2) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %17 = "stablehlo.convert"(%10) : (tensor<i1>) -> tensor<i32>
    %18 = "stablehlo.add"(%arg3, %17) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %19 = "stablehlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
    %20 = "stablehlo.subtract"(%19, %17) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %21 = "stablehlo.add"(%arg4, %20) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    "func.return"(%12, %14, %16, %18, %21) : (tensor<2xf32>, tensor<f32>, tensor<f32>, tensor<i32>, tensor<i32>) -> ()
  }
}
