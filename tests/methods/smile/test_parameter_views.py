"""NumPy views of parameters: they follow the parameters, whatever becomes of the module."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from onepos.methods.smile.encoder_pass import ParameterViews


class Kept(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.views = ParameterViews(self.layer.parameters())


@pytest.mark.parametrize(
    "change",
    [
        lambda module: module,
        copy.deepcopy,
        lambda module: pickle.loads(pickle.dumps(module)),
        lambda module: module.double(),
        lambda module: copy.deepcopy(module).double().float(),
    ],
)
def test_views_share_the_memory_of_the_parameters(change):
    module = Kept()
    module.views()
    module = change(module)
    weight, bias = module.views()
    with torch.no_grad():
        module.layer.weight.add_(1.0)
        module.layer.bias.fill_(5.0)
    np.testing.assert_array_equal(weight, module.layer.weight.detach().numpy())
    np.testing.assert_array_equal(bias, [5.0, 5.0])


def test_views_of_a_pickle_are_its_own_even_where_the_old_parameters_were():
    for _ in range(20):
        views = ParameterViews([torch.zeros(1000)])
        views()
        stored = pickle.dumps(views)
        del views
        again = pickle.loads(stored)
        again._parameters[0].add_(1.0)
        assert again()[0].sum() == 1000.0
