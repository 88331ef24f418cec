// `first_moments` (moments) for a GPU, and the second ones: LANES threads, a warp, share the items of TOGETHER points, and
// no weight goes through memory. Every point is summed up in one order, whatever its company.

#define EACH _Pragma("unroll")

__device__ __forceinline__ double over_lanes(double part) {
    for (int apart = LANES / 2; apart; apart /= 2) part += __shfl_xor_sync(0xffffffff, part, apart);
    return part;
}

// first (rows, 1 + K): the sums over items j of w_j = exp(S_j.u + t_j) and of w_j S_j; second (rows, K (K + 1) / 2): of
// w_j (S_jk - m_k) (S_jl - m_l), k <= l. `slopes` (problems, 1 + K, items) has a row of ones before S; `offsets` t
// (problems, items); `mean` m (problems, K); `points` u (rows, K) of the problems `owner` (rows,), ascending. A warp
// has the items of TOGETHER points, and goes over them once for each problem that they are of.
extern "C" __global__ void __launch_bounds__(THREADS) moments(
        const double* slopes, const double* offsets, const double* mean, const double* points, const long long* owner,
        double* first, double* second, int rows, int items) {
    int lane = threadIdx.x % LANES, row = (blockIdx.x * THREADS + threadIdx.x) / LANES * TOGETHER;
    int end = min(row + TOGETHER, rows);
    while (row < end) {
        long long problem = owner[row];
        int count = 1;
        while (row + count < end && owner[row + count] == problem) count++;
        const double *S = slopes + (problem * (K + 1) + 1) * items, *t = offsets + problem * items;
        double u[TOGETHER][K], total[TOGETHER], sums[TOGETHER][K];
        EACH for (int i = 0; i < TOGETHER; i++) {
            total[i] = 0.0;
            EACH for (int k = 0; k < K; k++)
                u[i][k] = points[(long long)(row + min(i, count - 1)) * K + k], sums[i][k] = 0.0;
        }
        double squares[K][K];
        EACH for (int k = 0; k < K; k++) EACH for (int l = k; l < K; l++) squares[k][l] = 0.0;
        for (int j = lane; j < items; j += LANES) {
            double s[K], offset = t[j];
            EACH for (int k = 0; k < K; k++) s[k] = S[(long long)k * items + j];
            EACH for (int i = 0; i < TOGETHER; i++) {
                double w = offset;
                EACH for (int k = 0; k < K; k++) w += u[i][k] * s[k];
                w = exp(w);
                total[i] += w;
                EACH for (int k = 0; k < K; k++) sums[i][k] += w * s[k];
                if (!SECOND) continue;
                EACH for (int k = 0; k < K; k++) s[k] -= mean[problem * K + k];
                EACH for (int k = 0; k < K; k++) EACH for (int l = k; l < K; l++) squares[k][l] += w * s[k] * s[l];
            }
        }
        EACH for (int i = 0; i < TOGETHER; i++) {
            double* out = first + (long long)(row + min(i, count - 1)) * (K + 1);
            double sum = over_lanes(total[i]);
            if (lane == 0 && i < count) out[0] = sum;
            EACH for (int k = 0; k < K; k++) {
                sum = over_lanes(sums[i][k]);
                if (lane == 0 && i < count) out[1 + k] = sum;
            }
        }
        double* out = second + (long long)row * (K * (K + 1) / 2);
        int place = 0;
        if (SECOND) EACH for (int k = 0; k < K; k++) EACH for (int l = k; l < K; l++) {
            double sum = over_lanes(squares[k][l]);
            if (lane == 0) out[place++] = sum;
        }
        row += count;
    }
}
