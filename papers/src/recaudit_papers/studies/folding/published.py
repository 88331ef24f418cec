"""What Xin et al. (2017) print: claims of Sections 3 and 4 in their words; their figures have no numbers in text."""

from __future__ import annotations

from recaudit_papers.studies.reading import Published

SOME = 0.001
"""A share that is above 0: it happens, or there is a gain at all."""

MOST_FOLDING = Published.number("0.75")
"""Section 4.1: "the maximum folding value is 0.75"."""
BEST_FOLDS = Published.above(0.25, '"they lead to F > 0.25" (Section 4.1)')
FEWER_FACTORS_FOLD_MORE = Published.above(0, '"decreasing k worsens the folding metric" (Section 4.1)')
TEN_FACTORS_ARE_BEST = Published.above(0, '"optimizing only for RMSE yields k = 10" (Section 4.1)')
NO_WEIGHT_IS_BEST = Published.above(0, '"optimizing only for RMSE yields [...] alpha = 0" (Section 4.1)')
WORSE_IN_LOW_DIMENSIONS = Published.above(0, '"more pronounced in lower dimensions" (Section 4.1)')

OPPOSED = Published.below(0, '"negative correlation between RMSE and folding"')
START = Published.above(1.45, '"drops rapidly from 1.5" (Section 4.2)')
AT_KNEE = Published.number("0.9")
"""Section 4.2: RMSE "drops rapidly from 1.5 to 0.9 [...]. However, once alpha is below 0.03 [...]"."""
LITTLE_BEFORE = Published.below(0.5, '"with little increase in folding" (Section 4.2)')
HEAVY_BELOW = Published.above(2, '"minor improvements in RMSE come at a heavy cost on folding" (Section 4.2)')
MINOR_GAIN = Published.above(0.5, '"minor improvements in RMSE" (Section 4.2)')
GOOD_MODELS_FOLD = Published.above(
    0.2, '"all RMSE values <= 0.8 are [...] associated with" folding >= 0.2 (Section 4.2)'
)
HALVED = Published.below(0.5, "heavy folding between an RMSE of 0.8 and of 0.9, little above (Section 4.2)")
MORE_FACTORS_FOLD_LESS = Published.above(0, '"increasing the dimension k reduces folding" (Section 4.2)')
FIFTY_ARE_BEST = Published.above(0, '"the local minimum is consistently achieved at k = 50" (Section 4.2)')
LOWEST_10M = Published.number("0.77", error=0.02)
"""Section 4.2: "comparable to the state of the art [...] (0.771 reported by [31])", on MovieLens 10M."""
LOWEST_1M = Published.nothing("about 0.77 on MovieLens 10M")
SAME_ORDER = Published.above(0.95, '"Spearman\'s rho ~ 1" (Section 4.3)')
SAME_RANKS = Published.above(0.95, 'l of 15, 30 and 35 "lead to identical conclusions" (Section 4.2)')

WORSE_ERROR = Published.above(0, '"the solution obtained while ignoring the missing data is quantitatively better"')
LOWER_COSINES = Published.above(0, '"the cosine measures are higher in the first set" (Section 3.2)')
COSINES_OF_TABLE_1 = (
    (0.912, 0.909, 0.897, 0.895, 0.892, 0.890, 0.890, 0.889, 0.888),
    (0.821, 0.810, 0.780, 0.771, 0.764, 0.761, 0.761, 0.738, 0.735),
)
"""Of the 9 nearest ignoring what is missing, and using it."""
LOWER_BY = Published.number(f"{(sum(COSINES_OF_TABLE_1[0]) - sum(COSINES_OF_TABLE_1[1])) / 9:.3f}")
MORE_FITTING = Published.above(SOME, 'the second set "is thus more fitting" (Section 3.2); in Table 1: 8 of 9, 5 of 9')
"""Table 1, counted: of the 9 films ignoring what is missing 5 have a genre in common with the film asked about, of
those using it 8. By the genre Children it is the other way round: 2 and none."""

OVERPREDICTED = Published.above(0, '"the large positive errors are due to folding" (Figure 1 d)')
CHILDREN_NEAR_HORROR = Published.above(SOME, '"horror films are close to [...] children" (Figure 2)')
ACTION_NEAR_JAPANESE = Published.above(SOME, '"closer proximity to Japanese films than action films" (Figure 2)')
