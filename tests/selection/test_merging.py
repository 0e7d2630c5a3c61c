"""CaM's probabilities and recurrence against literal loops in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kvrelay.selection.merging import BLOCK_TOKENS, merge_probabilities, merged_values


def one_after_another(values: Tensor, coins: Tensor, width: int) -> Tensor:
    """The published loop: tokens leave the window in order, each adds to the ``width`` tokens after it."""
    out = values.double().clone()
    for i in range(values.shape[1]):
        for head in range(values.shape[0]):
            if bool(coins[head, i]):
                out[head, i + 1 : i + 1 + width] += out[head, i] / width
    return out


def coins_of(n_heads: int, n_tokens: int, start: int, width: int, p: float, seed: int = 0) -> Tensor:
    coins = torch.rand(n_heads, n_tokens, generator=torch.Generator().manual_seed(seed)) < p
    coins[:, :start] = False
    coins[:, max(0, n_tokens - width) :] = False
    return coins


HAND = [1, 1, 1, 1.5, 2.25, 2.875, 3.5625, 4.21875, 4.890625, 5.5546875, 6.22265625, 3.77734375]


def test_twelve_tokens_by_hand() -> None:
    # KVCache-Factory#35: the merge was indexed wrongly. w = 2, start 2, so tokens 2 to 9 hand on
    values = torch.ones(1, 12, 1)
    assert merged_values(values, coins_of(1, 12, 2, 2, 1.0), 2)[0, :, 0].tolist() == HAND
    assert one_after_another(values, coins_of(1, 12, 2, 2, 1.0), 2)[0, :, 0].tolist() == HAND
    assert torch.equal(merged_values(values, coins_of(1, 12, 2, 2, 0.0), 2), values)


@pytest.mark.parametrize("p", [0.02, 0.5, 1.0])
@pytest.mark.parametrize(
    ("n_tokens", "width"), [(12, 1), (12, 3), (12, 11), (BLOCK_TOKENS, 8), (BLOCK_TOKENS + 1, 40), (401, 7), (401, 150)]
)
def test_blocks_equal_the_loop(n_tokens: int, width: int, p: float) -> None:
    values = torch.randn(2, n_tokens, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    coins = coins_of(2, n_tokens, n_tokens // 10, width, p)
    expected = one_after_another(values, coins, width)
    bound = 1e-15 * n_tokens * (BLOCK_TOKENS + width) * float(expected.abs().max())
    torch.testing.assert_close(merged_values(values, coins, width), expected, rtol=0, atol=bound)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_are_float32(dtype: torch.dtype) -> None:
    n_tokens, width = 300, 20
    values = torch.rand(2, n_tokens, 3, generator=torch.Generator().manual_seed(1)).to(dtype)
    coins = coins_of(2, n_tokens, 30, width, 0.5)
    merged = merged_values(values, coins, width)
    assert merged.dtype == torch.float32
    # nothing cancels among positive terms: each token adds one rounding a term of its sum to the worst of its inputs
    bound = n_tokens * (BLOCK_TOKENS + width + 2) * 2**-24
    torch.testing.assert_close(merged.double(), one_after_another(values, coins, width), rtol=bound, atol=0)


def test_shares_below_half_an_ulp_of_bf16_are_not_lost() -> None:
    # V / 1024 is under half an ulp of V in bf16, so in-place sums in bf16 change nothing
    values, width = torch.ones(1, 2000, 1, dtype=torch.bfloat16), 1024
    coins = coins_of(1, 2000, 200, width, 1.0)

    lost = values.clone()
    for i in coins[0].nonzero()[:, 0].tolist():
        lost[:, i + 1 : i + 1 + width] += lost[:, i : i + 1] / width
    assert torch.equal(lost, values)

    merged = merged_values(values, coins, width).to(torch.bfloat16)
    assert not torch.equal(merged, values)
    exact = one_after_another(values, coins, width)
    # one cast: half an ulp of bf16 and the float32 sums
    bound = 2**-9 + 2000 * (BLOCK_TOKENS + width + 2) * 2**-24
    torch.testing.assert_close(merged.double(), exact, rtol=bound, atol=0)


def test_inputs_and_unmerged_tokens_are_untouched() -> None:
    values = torch.randn(2, 300, 3, generator=torch.Generator().manual_seed(1))
    before, coins = values.clone(), torch.zeros(2, 300, dtype=torch.bool)
    coins[1, 200] = True
    merged = merged_values(values, coins, 5)
    assert torch.equal(values, before) and merged.data_ptr() != values.data_ptr()
    changed = (merged != values).any(-1)
    assert changed.nonzero().tolist() == [[1, t] for t in range(201, 206)]
    torch.testing.assert_close(merged[1, 201:206], values[1, 201:206] + values[1, 200] / 5)


def test_merging_at_rate_p_lengthens_values_by_one_over_one_minus_p() -> None:
    # E V' = V + p E V'. A token's spread is sqrt(p (1 - p) / w) V' = 0.06; about 25 windows are independent
    coins = coins_of(4, 2000, 200, 32, 0.1)
    merged = merged_values(torch.ones(4, 2000, 1), coins, 32)[:, 300:1900]
    assert abs(float(merged.mean()) - 1 / 0.9) < 5 * 0.06 / 10


@pytest.mark.parametrize(
    ("n_tokens", "start", "width"), [(12, 2, 2), (40, 4, 7), (40, 0, 1), (40, 33, 7), (40, 32, 7), (5, 1, 9)]
)
def test_probabilities_equal_the_formula(n_tokens: int, start: int, width: int) -> None:
    generator = torch.Generator().manual_seed(n_tokens)
    mass = torch.randint(0, 4, (3, n_tokens), generator=generator) / 4
    reference = torch.tensor([0.0, 0.5, 9.0])
    expected = torch.zeros(3, n_tokens)
    for head in range(3):
        for i in range(start, n_tokens - width):
            largest = max(float(reference[head]), *mass[head, i : i + width].tolist())
            expected[head, i] = float(mass[head, i]) / largest if largest else 0.0
    torch.testing.assert_close(merge_probabilities(mass, reference, start, width), expected, rtol=2**-23, atol=0)
