from __future__ import annotations
import torch
from recaudit.solvers.logsumexp import LogSumExp
from recaudit.solvers.newton import minimize
def quick(slope,intercept,targets,beta,lower,upper,tol=1e-6,work=1<<30,rounds=300):
    slope=torch.as_tensor(slope); c=torch.as_tensor(intercept)
    mid=(lower+upper)/2; half=(upper-lower)/2
    S=slope*beta*half; t=beta*(c+slope.sum(1)*mid)
    fam=LogSumExp(S[None],t[None],work)
    tg=torch.as_tensor(targets)
    m=minimize(fam,S[tg],torch.zeros(len(tg),dtype=torch.long),tol,rounds)
    return fam,m
