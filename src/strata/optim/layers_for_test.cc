#include "strata/optim/layers_for_test.h"

#include <algorithm>

namespace strata::optim {
namespace {

// The mean over dim `dim` of a row-major array, without it.
Doubles mean_over(const Doubles& x, const Dims& dims, size_t dim) {
  size_t inner = 1, size = static_cast<size_t>(dims[dim]);
  for (size_t i = dim + 1; i < dims.size(); ++i) inner *= static_cast<size_t>(dims[i]);
  Doubles out(x.size() / size, 0);
  for (size_t i = 0; i < x.size(); ++i) {
    out[i / (inner * size) * inner + i % inner] += x[i] / static_cast<double>(size);
  }
  return out;
}

// The inverse of dropping dim `dim`: each value repeated along it.
Doubles repeat_along(const Doubles& x, const Dims& dims, size_t dim) {
  size_t inner = 1, size = static_cast<size_t>(dims[dim]);
  for (size_t i = dim + 1; i < dims.size(); ++i) inner *= static_cast<size_t>(dims[i]);
  Doubles out(x.size() * size);
  for (size_t i = 0; i < out.size(); ++i) out[i] = x[i / (inner * size) * inner + i % inner];
  return out;
}

double rms(const Doubles& x) {
  double sum = 0;
  for (double v : x) sum += v * v;
  return std::sqrt(sum / static_cast<double>(x.size()));
}

void average(Doubles& old, const Doubles& fresh, double b, double one_minus_b) {
  if (old.empty()) old.assign(fresh.size(), 0);
  for (size_t i = 0; i < old.size(); ++i) {
    old[i] = stored_f32(b * old[i] + one_minus_b * fresh[i]);
  }
}

// The two largest dims, the largest last; of equal ones the later counts as larger.
bool factored_dims(const Dims& dims, int64_t least, size_t& second, size_t& largest) {
  if (dims.size() < 2) return false;
  largest = 0;
  for (size_t i = 1; i < dims.size(); ++i) largest = dims[i] >= dims[largest] ? i : largest;
  second = largest == 0 ? 1 : 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i != largest && dims[i] >= dims[second]) second = i;
  }
  return dims[second] >= least;
}

// x (n, k) times y (k, m).
Doubles matmul(const Doubles& x, const Doubles& y, size_t n, size_t k, size_t m) {
  Doubles out(n * m, 0);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < k; ++j) {
      for (size_t l = 0; l < m; ++l) out[i * m + l] += x[i * k + j] * y[j * m + l];
    }
  }
  return out;
}

Doubles transposed(const Doubles& x, size_t rows, size_t columns) {
  Doubles out(x.size());
  for (size_t i = 0; i < x.size(); ++i) out[i % columns * rows + i / columns] = x[i];
  return out;
}

Doubles orthogonalised(Doubles x, size_t rows, size_t columns, const MuonConfig& c) {
  double norm = rms(x) * std::sqrt(static_cast<double>(x.size()));
  for (double& v : x) v /= norm + c.eps;
  const bool tall = rows > columns;
  if (tall) {
    x = transposed(x, rows, columns);
    std::swap(rows, columns);
  }
  for (int64_t step = 0; step < c.steps; ++step) {
    Doubles a = matmul(x, transposed(x, rows, columns), rows, columns, rows);
    Doubles b = matmul(a, a, rows, rows, rows);
    for (size_t i = 0; i < a.size(); ++i) b[i] = -4.7750 * a[i] + 2.0315 * b[i];
    Doubles higher = matmul(b, x, rows, rows, columns);
    for (size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] + higher[i];
  }
  return tall ? transposed(x, rows, columns) : x;
}

}  // namespace

LayerRule adafactor_layer(const AdafactorConfig& c) {
  return [c](Layer& layer, const Doubles& g, double lr, double wd, double t) {
    double fresh = std::pow(t, -c.decay_power);
    Doubles squares = g, u = g;
    for (double& s : squares) s = s * s + c.eps;
    size_t second = 0, largest = 0;
    if (factored_dims(layer.dims, c.min_factored, second, largest)) {
      Doubles &row = layer.slots["adafactor.v_row"], &col = layer.slots["adafactor.v_col"];
      average(row, mean_over(squares, layer.dims, largest), 1 - fresh, fresh);
      average(col, mean_over(squares, layer.dims, second), 1 - fresh, fresh);
      Dims without = layer.dims;
      without.erase(without.begin() + static_cast<std::ptrdiff_t>(largest));
      size_t at = second - (second > largest ? 1 : 0);
      Doubles mean =
          repeat_along(repeat_along(mean_over(row, without, at), without, at), layer.dims, largest);
      Doubles rows = repeat_along(row, layer.dims, largest);
      Doubles columns = repeat_along(col, layer.dims, second);
      for (size_t i = 0; i < u.size(); ++i) u[i] /= std::sqrt(rows[i] / mean[i] * columns[i]);
    } else {
      Doubles& v = layer.slots["adafactor.v"];
      average(v, squares, 1 - fresh, fresh);
      for (size_t i = 0; i < u.size(); ++i) u[i] /= std::sqrt(v[i]);
    }
    double factor = lr / std::max(1.0, rms(u) / c.clip_rms);
    if (c.parameter_scale) factor *= std::max(rms(layer.p), c.least_scale);
    for (double& x : u) x *= factor;
    if (c.momentum) {
      average(layer.slots["adafactor.m"], u, *c.momentum, 1 - *c.momentum);
      u = layer.slots["adafactor.m"];
    }
    for (size_t i = 0; i < u.size(); ++i) {
      layer.p[i] = stored_f32(layer.p[i] - u[i] - wd * layer.p[i]);
    }
  };
}

LayerRule muon_layer(const MuonConfig& c) {
  return [c](Layer& layer, const Doubles& g, double lr, double wd, double t) {
    Doubles& m = layer.slots["muon.m"];
    average(m, g, c.beta, 1 - c.beta);
    Doubles h = g;
    for (size_t i = 0; i < g.size(); ++i) {
      h[i] = c.beta * m[i] / (1 - std::pow(c.beta, t + 1)) +
             (1 - c.beta) * g[i] / (1 - std::pow(c.beta, t));
    }
    const double out = static_cast<double>(layer.dims[0]), in = static_cast<double>(layer.dims[1]);
    Doubles x = orthogonalised(std::move(h), static_cast<size_t>(layer.dims[0]),
                               static_cast<size_t>(layer.dims[1]), c);
    for (size_t i = 0; i < x.size(); ++i) {
      double u = std::sqrt(std::max(1.0, out / in)) * x[i] + wd * layer.p[i];
      layer.p[i] = stored_f32(layer.p[i] - lr * u);
    }
  };
}

LayerRule adamw_layer(const AdamWConfig& c) {
  return [c](Layer& layer, const Doubles& g, double lr, double wd, double t) {
    Doubles &m = layer.slots["adam.m"], &v = layer.slots["adam.v"], squares = g;
    for (double& s : squares) s *= s;
    average(m, g, c.b1, 1 - c.b1);
    average(v, squares, c.b2, 1 - c.b2);
    double c1 = 1 - std::pow(c.b1, t), next = 1 - std::pow(c.b1, t + 1);
    for (size_t i = 0; i < g.size(); ++i) {
      double look = c.nesterov ? c.b1 * m[i] / next + (1 - c.b1) * g[i] / c1 : m[i] / c1;
      double u = look / (std::sqrt(v[i] / (1 - std::pow(c.b2, t)) + c.eps_root) + c.eps);
      layer.p[i] = stored_f32(layer.p[i] - lr * (u + wd * layer.p[i]));
    }
  };
}

std::vector<Place> places_of(const sharding::ParamType& type) {
  std::vector<int64_t> inside = array_dims(type);
  std::vector<Place> places;
  for (int64_t flat = 0; flat < type.elements(); ++flat) {
    size_t layer = 0, element = 0, layer_stride = 1, element_stride = 1;
    int64_t rest = flat;
    for (int64_t d = type.rank() - 1; d >= 0; --d) {
      size_t size = static_cast<size_t>(type.dims[static_cast<size_t>(d)].size);
      size_t index = static_cast<size_t>(rest) % size;
      rest /= static_cast<int64_t>(size);
      bool in = std::find(inside.begin(), inside.end(), d) != inside.end();
      (in ? element : layer) += index * (in ? element_stride : layer_stride);
      (in ? element_stride : layer_stride) *= size;
    }
    places.push_back({layer, element});
  }
  return places;
}

Dims layer_dims(const sharding::ParamType& type) {
  Dims dims;
  for (int64_t d : array_dims(type)) dims.push_back(type.dims[static_cast<size_t>(d)].size);
  return dims;
}

size_t layer_count(const sharding::ParamType& type) {
  return static_cast<size_t>(type.elements() / element_count(layer_dims(type)));
}

}  // namespace strata::optim
