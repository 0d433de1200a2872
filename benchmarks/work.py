"""Floating-point operations of the matrix products in an epoch, counted from layer sizes."""

from itertools import pairwise


def dense(sizes, *, input_gradient=False):
    """Operations per row of a stack of linear layers, forward and backward: 2·in·out for each product.

    Forward one product a layer; backward one for the weights and one for the inputs, the latter not needed in the
    first layer unless something before it is trained.
    """
    layers = [2 * n_inputs * n_outputs for n_inputs, n_outputs in pairwise(sizes)]
    return 3 * sum(layers) - (0 if input_gradient else layers[0])


def assume_negative(n, q, c, hidden):
    """An epoch of AN on n rows: q → hidden → c."""
    return n * dense([q, hidden, c])


def smile(n, q, c, hidden, *, k, batch, encoder_hidden, latent_size, decoder_hidden):
    """An epoch of SMILE past the warm-up.

    The encoder's first layer sees the k + 1 rows of a neighbourhood and has no input gradient, its second the
    pooled row; it runs forward once more for the soft labels. Draws of D carry a gradient into every decoder.
    Elementwise work (Beta and Gaussian terms, losses, Adam) is not counted. Rows that several neighbourhoods share and
    entries that are zero are counted as often as the formula names them, whether or not the code skips them.
    """
    first = (k + 1) * 2 * q * encoder_hidden
    second = 2 * encoder_hidden * 2 * c
    encoder = 2 * first + 3 * second
    again = first + second
    decoders = (
        dense([q + c, decoder_hidden, 2 * latent_size], input_gradient=True)
        + dense([c, decoder_hidden, c], input_gradient=True)
        + dense([c + latent_size, decoder_hidden, q], input_gradient=True)
    )
    adjacency = 3 * 2 * batch * c  # D Dᵀ of a batch, and both of its factors' gradients
    return n * (encoder + again + decoders + adjacency) + assume_negative(n, q, c, hidden)
