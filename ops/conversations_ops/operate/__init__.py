"""Operations on a namespace: queries, decisions, resubmission, redrive."""
