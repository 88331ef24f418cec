// `_minimize_each` (box_qp) for a GPU: the same steps, a thread for each row.

#define EACH _Pragma("unroll")
constexpr int STRIDE = K * K + 1;

__device__ __forceinline__ double inside(double x) { return fmin(fmax(x, -1.0), 1.0); }

// One pass of exact coordinate minimisation; r stays the gradient at x.
__device__ __forceinline__ void sweep(const double* H, double d, double* x, double* r) {
    EACH for (int k = 0; k < K; k++) {
        double to = inside(x[k] - r[k] / (H[k * K + k] + d)), step = to - x[k];
        x[k] = to;
        EACH for (int m = 0; m < K; m++) r[m] += step * H[k * K + m];
        r[k] += step * d;
    }
}

// out (rows, K): the points u + s that minimise r.s + s^T (H + d I) s / 2 within [-1, 1]^K.
extern "C" __global__ void box(const double* hessian, const double* gradient, const double* points,
                               const double* damping, const double* tol, double* out, int rows) {
    __shared__ double held[THREADS * STRIDE];  // the odd stride keeps threads out of each other's banks
    int first = blockIdx.x * THREADS, count = min(THREADS, rows - first), row = first + threadIdx.x;
    for (int i = threadIdx.x; i < count * K * K; i += THREADS)
        held[i / (K * K) * STRIDE + i % (K * K)] = hessian[(long long)first * K * K + i];
    __syncthreads();
    if (threadIdx.x >= count) return;
    const double* H = held + threadIdx.x * STRIDE;
    double d = damping[row], x[K], r[K], new_x[K], new_r[K], direction[K], factor[K * K];
    EACH for (int k = 0; k < K; k++) x[k] = points[(long long)row * K + k], r[k] = gradient[(long long)row * K + k];
    sweep(H, d, x, r);
    sweep(H, d, x, r);
    for (int round = 0; round < 5; round++) {
        double gap = 0.0;
        bool free[K], any = false;
        EACH for (int k = 0; k < K; k++) {
            gap += r[k] * x[k] + fabs(r[k]);
            free[k] = !((x[k] <= -1.0 && r[k] >= 0.0) || (x[k] >= 1.0 && r[k] <= 0.0));
            any |= free[k];
        }
        if (gap <= tol[row] || !any) break;
        // The Newton direction on the free coordinates, 0 on the others, by a Cholesky factor with one over its pivots.
        EACH for (int i = 0; i < K; i++) {
            EACH for (int j = 0; j < i; j++) {
                double entry = free[i] && free[j] ? H[i * K + j] : 0.0;
                EACH for (int m = 0; m < j; m++) entry -= factor[i * K + m] * factor[j * K + m];
                factor[i * K + j] = entry * factor[j * K + j];
            }
            double pivot = H[i * K + i], wanted = free[i] ? -r[i] : 0.0;
            EACH for (int m = 0; m < i; m++) {
                pivot -= factor[i * K + m] * factor[i * K + m];
                wanted -= factor[i * K + m] * direction[m];
            }
            factor[i * K + i] = free[i] ? 1.0 / sqrt(fmax(pivot, 0.0) + d) : 1.0;
            direction[i] = wanted * factor[i * K + i];
        }
        EACH for (int i = K - 1; i >= 0; i--) {
            EACH for (int m = i + 1; m < K; m++) direction[i] -= factor[m * K + i] * direction[m];
            direction[i] *= factor[i * K + i];
        }
        double length = 1.0;
        for (int attempt = 0; attempt < 2; attempt++) {
            EACH for (int k = 0; k < K; k++) new_x[k] = inside(x[k] + length * direction[k]);
            EACH for (int k = 0; k < K; k++) {
                new_r[k] = r[k] + (new_x[k] - x[k]) * d;
                EACH for (int m = 0; m < K; m++) new_r[k] += (new_x[m] - x[m]) * H[k * K + m];
            }
            double change = 0.0;
            EACH for (int k = 0; k < K; k++) change += 0.5 * (new_x[k] - x[k]) * (r[k] + new_r[k]);
            if (!(change > 0.0)) break;
            // The projected full step climbs: stop at the first bound instead, which always descends.
            EACH for (int k = 0; k < K; k++)
                if (direction[k] != 0.0) length = fmin(length, (copysign(1.0, direction[k]) - x[k]) / direction[k]);
        }
        EACH for (int k = 0; k < K; k++) x[k] = new_x[k], r[k] = new_r[k];
        sweep(H, d, x, r);
    }
    EACH for (int k = 0; k < K; k++) out[(long long)row * K + k] = x[k];
}
